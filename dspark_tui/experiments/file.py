"""Reads an experiment's TOML file. What is wrong in it is one line with place and nearest key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dspark_tui.conversation.params import FIELDS, PaneParams, ParamError, updated
from dspark_tui.experiments.assertions import Assertion, Demand
from dspark_tui.experiments.experiment import CELL_LIMIT, Experiment, Prompt
from dspark_tui.experiments.inputs import read_inputs
from dspark_tui.experiments.template import filled, variables_of
from dspark_tui.toml_source import Place, TomlSource

TABLES = ("prompt", "inputs", "defaults", "params", "assert")
PROMPT_KEYS = ("name", "text")
PARAM_KEYS = tuple(key for key in FIELDS if key != "engine")
"""All cells are asked of one engine: the one batch is what an experiment is for."""
ASSERT_KEYS = ("name", "ignore_case", *Demand)


def load(path: Path) -> Experiment:
    """The experiment in the file. Raises FileError."""
    return Reader(TomlSource.read(path)).read()


class Reader:
    """Takes one parsed document into an experiment; the first problem ends it."""

    def __init__(self, source: TomlSource) -> None:
        self._source = source

    def read(self) -> Experiment:
        self._source.table(self._source.document, TABLES)
        experiment = Experiment(
            prompts=self._prompts(),
            inputs=read_inputs(self._source),
            params=self._params(),
            assertions=self._assertions(),
        )
        self._check_names("prompt", [prompt.name for prompt in experiment.prompts])
        self._check_names("params", [params.name for params in experiment.params])
        self._check_names("assert", [assertion.name for assertion in experiment.assertions])
        self._check_variables(experiment)
        if experiment.count > CELL_LIMIT:
            self._source.refuse("", f"comes to {experiment.count} cells; at most {CELL_LIMIT} run")
        return experiment

    def _prompts(self) -> tuple[Prompt, ...]:
        prompts = []
        for place, table in self._source.tables("prompt", PROMPT_KEYS):
            text = self._text(table, "text", place)
            if not text.strip():
                self._source.refuse("prompt", "needs a text", place)
            name = self._text(table, "name", place) or f"prompt {place.nth + 1}"
            prompts.append(Prompt(" ".join(name.split()), text))
        if not prompts:
            self._source.refuse("prompt", "is missing: there is nothing to ask")
        return tuple(prompts)

    def _params(self) -> tuple[PaneParams, ...]:
        base = self._updated(
            PaneParams(), self._source.document.get("defaults", {}), Place("defaults")
        )
        tables = self._source.tables("params", PARAM_KEYS)
        sets = [self._updated(base, table, place) for place, table in tables] or [base]
        return tuple(replace(params, name=params.name or _name(params, base)) for params in sets)

    def _updated(self, base: PaneParams, values: Any, place: Place) -> PaneParams:
        for key, value in self._source.table(values, PARAM_KEYS, place).items():
            try:
                base = updated(base, {key: value})
            except ParamError as error:
                self._source.refuse(key, str(error).removeprefix(f"{key} "), place)
        return base

    def _assertions(self) -> tuple[Assertion, ...]:
        tables = self._source.tables("assert", ASSERT_KEYS)
        return tuple(self._assertion(place, table) for place, table in tables)

    def _assertion(self, place: Place, table: dict[str, Any]) -> Assertion:
        demands = [demand for demand in Demand if demand in table]
        if len(demands) != 1:
            self._source.refuse("assert", f"takes exactly one of {', '.join(Demand)}", place)
        (demand,) = demands
        value = table[demand]
        if wanted := _wanted(demand, value):
            self._source.refuse(demand, f"takes {wanted}, not {value!r}", place)
        ignore_case = table.get("ignore_case", False)
        if not isinstance(ignore_case, bool):
            self._source.refuse("ignore_case", f"takes true or false, not {ignore_case!r}", place)
        if demand is Demand.REGEX:
            self._check_pattern(value, place)
        text = "" if demand is Demand.JSON else str(value)
        name = self._text(table, "name", place) or f"{demand} {text}"
        return Assertion(" ".join(name.split()), demand, text, ignore_case)

    def _text(self, table: dict[str, Any], key: str, place: Place) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            self._source.refuse(key, f"takes a text in quotes, not {value!r}", place)
        return value

    def _check_pattern(self, pattern: str, place: Place) -> None:
        try:
            re.compile(filled(pattern, dict.fromkeys(variables_of(pattern), "x")))
        except re.error as error:
            self._source.refuse(Demand.REGEX, f"is no regular expression: {error}", place)

    def _check_names(self, table: str, names: Sequence[str]) -> None:
        """Rows and columns of the results are told apart by them."""
        for nth, name in enumerate(names):
            if name in names[:nth]:
                self._source.refuse("name", f"{name!r} is taken; name each", Place(table, nth))

    def _check_variables(self, experiment: Experiment) -> None:
        """Every row must have what the texts that are filled from it name."""
        prompts = [("text", prompt.text) for prompt in experiment.prompts]
        systems = [("system", params.system) for params in experiment.params]
        demands = [(assertion.demand, assertion.value) for assertion in experiment.assertions]
        for table, texts in (("prompt", prompts), ("params", systems), ("assert", demands)):
            for nth, (key, text) in enumerate(texts):
                for name in variables_of(text):
                    self._check_variable(name, experiment, key, Place(table, nth))

    def _check_variable(self, name: str, experiment: Experiment, key: str, place: Place) -> None:
        known = experiment.variables
        if name not in known:
            near = get_close_matches(name, known, 1)
            there = f"inputs have: {', '.join(known)}" if known else "there are no inputs"
            hint = f"did you mean {near[0]}?" if near else there
            self._source.refuse(key, f"names {{{{{name}}}}}, which no input has", place, hint)
        for number, row in enumerate(experiment.inputs, 1):
            if name not in row:
                self._source.refuse(key, f"names {{{{{name}}}}}, which input {number} lacks", place)


def _name(params: PaneParams, base: PaneParams) -> str:
    """What a set goes by that was given no name: its difference from [defaults]."""
    return " ".join(params.differences(base).split()) or "default"


def _wanted(demand: Demand, value: Any) -> str:
    """What it takes, in words, when the value is wrong; "" when it is right."""
    match demand:
        case Demand.CONTAINS | Demand.REGEX:
            return "" if isinstance(value, str) and value else "a text in quotes"
        case Demand.JSON:
            return "" if value is True else "true"
        case Demand.MAX_LENGTH:
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            return "" if fits else "a number of characters"
