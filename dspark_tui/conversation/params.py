"""What a pane asks of the engine: its name, system prompt and sampling parameters.

One table of fields serves the F2 form, `--pane` and config.toml, so a value is valid in all of
them or in none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dspark_tui.text.foreign import drawable, harmless

NAME_LIMIT = 40
SEED_BITS = 64

MOST_OF_SYSTEM = 80
"""Characters of a system prompt in a title, where there is room."""

DRAWN_SEED_BITS = 32
"""Of the seeds drawn here: every server takes these."""


class ParamError(ValueError):
    """A value no pane can use. `str()` is one line that says what would be right."""


class PaneParams(Struct, frozen=True):
    """temperature 0 is greedy; top_k 0 and min_p 0 keep every token; seed None draws a new one.

    engine: a name of the settings' [engines], "" for the usual one.
    """

    name: str = ""
    system: str = ""
    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    engine: str = ""

    def differences(self, base: PaneParams) -> str:
        """What sets this pane apart from `base`. Stored votes are known by these very words."""
        return "  ".join(self._different(base).values())

    def differences_in_title(self, base: PaneParams) -> str:
        """The same, the system prompt last and longer: a title is cut at its end, where it must."""
        different = self._different(base)
        if different.pop("system", None):
            different["system"] = _short_system(self.system, MOST_OF_SYSTEM)
        return "  ".join(different.values())

    def _different(self, base: PaneParams) -> dict[str, str]:
        """In short and by their fields, the values that are others than those of `base`."""
        return {
            key: field.short(getattr(self, key))
            for key, field in FIELDS.items()
            if key != "name" and getattr(self, key) != getattr(base, key)
        }

    def sampling(self) -> dict[str, Any]:
        """As OpenAI's request fields; those that some servers refuse only when they matter."""
        fields: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }
        if self.top_k:
            fields["top_k"] = self.top_k
        if self.min_p:
            fields["min_p"] = self.min_p
        if self.seed is not None:
            fields["seed"] = self.seed
        return fields


class Field(Struct, frozen=True):
    """One editable value. parse: takes the text or TOML value, raises ParamError."""

    label: str
    hint: str
    parse: Callable[[Any], Any]
    short: Callable[[Any], str]

    def text(self, value: Any) -> str:
        """The value as the form shows it."""
        return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def updated(params: PaneParams, values: Mapping[str, Any]) -> PaneParams:
    """`params` with the values parsed in. Raises ParamError naming the field."""
    changes = {}
    for key, value in values.items():
        field = FIELDS.get(key)
        if field is None:
            near = get_close_matches(key, FIELDS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; one of {', '.join(FIELDS)}"
            raise ParamError(f"a pane has no {key!r}{hint}")
        try:
            changes[key] = field.parse(value)
        except ParamError as error:
            raise ParamError(f"{key} {error}") from None
    return replace(params, **changes)


def _real(low: float, high: float, *, above: bool = False) -> Callable[[Any], float]:
    interval = f"between {low:g} and {high:g}" if not above else f"above {low:g}, up to {high:g}"

    def parse(value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not low <= number <= high or (above and number == low):
            raise ParamError(f"takes a number {interval}")
        return number

    return parse


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        try:
            number = low - 1 if isinstance(value, bool | float) else int(value)
        except (TypeError, ValueError):
            number = low - 1
        if not low <= number <= high:
            raise ParamError(f"takes a whole number from {low} to {high}")
        return number

    return parse


def _seed(value: Any) -> int | None:
    return None if value in ("", "random", None) else _whole(0, 2**SEED_BITS - 1)(value)


def _name(value: Any) -> str:
    name = drawable(" ".join(str(value).split()))
    if len(name) > NAME_LIMIT:
        raise ParamError(f"takes at most {NAME_LIMIT} characters")
    return name


def _system(value: Any) -> str:
    return harmless(str(value)).strip()


def _short_system(value: str, most: int = 24) -> str:
    """most: characters of it."""
    line = drawable(" ".join(value.split()))
    return f"sys: {line if len(line) <= most else line[: most - 1] + '…'}" if line else "no sys"


FIELDS: dict[str, Field] = {
    "name": Field("Name", "shown in the title", _name, str),
    "system": Field("System", "said before every conversation", _system, _short_system),
    "temperature": Field("Temperature", "0 to 2", _real(0, 2), lambda v: f"T{v:g}"),
    "top_p": Field("Top p", "1 keeps all", _real(0, 1, above=True), lambda v: f"top-p {v:g}"),
    "top_k": Field("Top k", "0 keeps all", _whole(0, 1_000_000), lambda v: f"top-k {v}"),
    "min_p": Field("Min p", "0 keeps all", _real(0, 1), lambda v: f"min-p {v:g}"),
    "max_tokens": Field("Max tokens", "per answer", _whole(1, 1_000_000), lambda v: f"max {v}"),
    "seed": Field("Seed", "empty: any", _seed, lambda v: "any seed" if v is None else f"seed {v}"),
    "engine": Field("Engine", "empty: the usual", _name, lambda v: f"on {v or 'the usual'}"),
}
