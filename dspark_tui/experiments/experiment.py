"""An experiment: prompt variants × inputs × parameter sets, and the cells they make. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from dspark_tui.conversation.params import PaneParams
from dspark_tui.experiments.assertions import Assertion
from dspark_tui.experiments.lane_labels import lane_labels
from dspark_tui.experiments.template import filled
from dspark_tui.text.counted import counted

Inputs = Mapping[str, str]
"""A value for each variable."""

CELL_LIMIT = 1_000_000
KEY_DIGITS = 16


class Prompt(Struct, frozen=True):
    """A variant: its name in the results and its text, with `{{variable}}` for what varies."""

    name: str
    text: str


class Cell(Struct, frozen=True):
    """One request of the experiment. number: 1, 2, … in order. repeat: how many cells before it are
    exactly like it. message and params.system: ready to be sent. source: who asks, as the lanes of
    the batch have room for it.
    """

    number: int
    prompt: str
    message: str
    inputs: Inputs
    params: PaneParams
    repeat: int = 0
    source: str = ""

    @property
    def label(self) -> str:
        """What is asked with what, on one line."""
        values = " ".join(", ".join(self.inputs.values()).split())
        shown = values if len(values) <= 40 else f"{values[:39]}…"
        return " / ".join(part for part in (self.prompt, shown, self.params.name) if part)

    def key(self, model: str) -> str:
        """The same for the same request to the same model, and for no other; 16 hex digits."""
        params = [self.params.name, self.params.system, self.params.sampling()]
        content = [model, self.prompt, self.message, dict(self.inputs), params, self.repeat]
        document = json.dumps(content, sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()[:KEY_DIGITS]


class Experiment(Struct, frozen=True):
    """None of the parts but the assertions is empty; without inputs there is one empty row."""

    prompts: tuple[Prompt, ...]
    inputs: tuple[Inputs, ...]
    params: tuple[PaneParams, ...]
    assertions: tuple[Assertion, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Every input's name, in order of appearance."""
        return tuple(dict.fromkeys(name for row in self.inputs for name in row))

    @property
    def count(self) -> int:
        return len(self.prompts) * len(self.inputs) * len(self.params)

    @property
    def size(self) -> str:
        """How many requests and why, in words."""
        factors = [counted(len(self.prompts), "prompt")]
        if self.variables:
            factors.append(counted(len(self.inputs), "input"))
        factors.append(counted(len(self.params), "parameter set"))
        return f"{' x '.join(factors)} = {counted(self.count, 'request')}"

    def cells(self) -> Iterator[Cell]:
        """All of them. Neighbours differ in their parameters first: they ask the same."""
        seen: Counter[str] = Counter()
        sources = self._sources()
        number = 0
        for prompt in self.prompts:
            for inputs in self.inputs:
                message = filled(prompt.text, inputs)
                for params in self.params:
                    number += 1
                    ready = replace(params, system=filled(params.system, inputs))
                    source = next(sources) or prompt.name
                    cell = Cell(number, prompt.name, message, inputs, ready, source=source)
                    key = cell.key("")
                    yield replace(cell, repeat=seen[key])
                    seen[key] += 1

    def _sources(self) -> Iterator[str]:
        names = self.variables
        varying = [name for name in names if len({row.get(name) for row in self.inputs}) > 1]
        return lane_labels(
            [prompt.name for prompt in self.prompts],
            [", ".join(row[name] for name in varying if name in row) for row in self.inputs],
            [params.name for params in self.params],
        )
