"""Which drafters are known to be trained for which models, and where a named one is."""

from __future__ import annotations

import re
from pathlib import Path

from engine.models.errors import ModelError
from engine.models.hub import fetch_hub
from engine.models.prepare import ProgressSink

KNOWN = {
    "qwen3-4b": "deepseek-ai/dspark_qwen3_4b_block7",
    "qwen3-8b": "deepseek-ai/dspark_qwen3_8b_block7",
    "qwen3-14b": "deepseek-ai/dspark_qwen3_14b_block7",
    "qwen3.6-35b-a3b": "RedHatAI/Qwen3.6-35B-A3B-speculator.dspark",
    "qwen3.8-27b": "RedHatAI/Qwen3.8-27B-speculator.dspark",
}
"""Model -> drafter on the hub, of packings that can be loaded. Loading compares their sizes."""

_HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+", re.ASCII)
_STORED_AS = re.compile(r"[-_.](\d+(\.\d+)?-?bits?|bf16|fp16|fp32|mxfp[48]|nvfp4|q[2-8]|mlx|dwq)$")


def known_drafter(model: str) -> str | None:
    """The hub id of the drafter for a model by its name, folder or hub id; None if none is known.

    Only the name counts, whoever published it and however its weights are stored.
    """
    name = model.rstrip("/").rpartition("/")[2].lower()
    while (shorter := _STORED_AS.sub("", name)) != name:
        name = shorter
    return KNOWN.get(name)


def drafter_folder(name: str, progress: ProgressSink) -> Path:
    """The folder of a drafter: one of that name, or the hub's, downloaded if it isn't here.

    Raises ModelError.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(f"there is no drafter at {name}")
    return fetch_hub(name, progress)
