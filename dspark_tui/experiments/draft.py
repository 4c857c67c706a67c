"""An experiment made in the workbench: a draft is its prompt, panes are its parameter sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dspark_tui.conversation.params import NAME_LIMIT
from dspark_tui.conversation.session import Conversation
from dspark_tui.experiments.experiment import Experiment
from dspark_tui.experiments.file import PARAM_KEYS, Reader
from dspark_tui.toml_source import FileError, Problem, TomlSource

DRAFT = Path("draft")
"""What problems of a draft without a table name as their file."""


def from_draft(
    draft: str, panes: Sequence[Conversation], table: Path | None, combine: str
) -> Experiment:
    """What a file with the same prompt, parameters and inputs holds. Raises FileError.

    panes: on one engine. table: of the inputs, None for a draft without variables. combine: as in
    a file.
    """
    if len({pane.params.engine for pane in panes}) > 1:
        what = "is not the same in all panes; an experiment runs on one"
        raise FileError(Problem(DRAFT, 0, "engine", what))
    document = {
        "prompt": [{"name": "draft", "text": draft}],
        "params": [_written(pane) for pane in panes],
    }
    if table is not None:
        document["inputs"] = {"table": table.name, "combine": combine}
    return Reader(TomlSource(table or DRAFT, document)).read()


def _written(pane: Conversation) -> dict[str, object]:
    """A pane's parameters as a file has them, under the pane's label: that no other pane has."""
    values = {key: getattr(pane.params, key) for key in PARAM_KEYS} | {
        "name": pane.label[:NAME_LIMIT]
    }
    return {key: value for key, value in values.items() if value is not None}
