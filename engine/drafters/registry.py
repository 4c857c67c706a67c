"""Which drafters are known to be trained for which models."""

from __future__ import annotations

import re

KNOWN = {
    "qwen3-4b": "deepseek-ai/dspark_qwen3_4b_block7",
    "qwen3-8b": "deepseek-ai/dspark_qwen3_8b_block7",
    "qwen3-14b": "deepseek-ai/dspark_qwen3_14b_block7",
    "qwen3.6-35b-a3b": "RedHatAI/Qwen3.6-35B-A3B-speculator.dspark",
    "qwen3.8-27b": "RedHatAI/Qwen3.8-27B-speculator.dspark",
}
"""Model -> drafter on the hub, of packings that can be loaded. Loading compares their sizes."""

_STORED_AS = re.compile(r"[-_.](\d+(\.\d+)?-?bits?|bf16|fp16|fp32|mxfp[48]|nvfp4|q[2-8]|mlx|dwq)$")


def known_drafter(model: str) -> str | None:
    """The hub id of the drafter for a model by its name, folder or hub id; None if none is known.

    Only the name counts, whoever published it and however its weights are stored.
    """
    name = model.rstrip("/").rpartition("/")[2].lower()
    while (shorter := _STORED_AS.sub("", name)) != name:
        name = shorter
    return KNOWN.get(name)
