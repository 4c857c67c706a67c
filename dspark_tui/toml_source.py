"""A TOML file, and where in it things are: enough to say what is wrong in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from dspark_tui.config import Problem


class FileError(Exception):
    """A file that can't be used. `str()` is one line with the place, the key and a hint.

    line 0: the whole file.
    """

    def __init__(self, path: Path, line: int, key: str, text: str, hint: str = "") -> None:
        super().__init__(str(Problem(path, line, key, text, hint)))


@dataclass(frozen=True, slots=True)
class Place:
    """A table of the file: the nth of that name, counted from 0. "" is the file's top."""

    table: str = ""
    nth: int = 0


TOP = Place()


class TomlSource:
    """The parsed document and its lines. Raises FileError where there is none to be had."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8-sig")
            self._lines = text.splitlines()
            self.document: dict[str, Any] = tomllib.loads(text)
        except OSError as error:
            self._fail(0, "", f"can't be read: {error.strerror or error}")
        except UnicodeDecodeError:
            self._fail(0, "", "is not UTF-8 text")
        except tomllib.TOMLDecodeError as error:
            at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
            line = int(at[1]) if at and at[1] else len(self._lines)
            what = str(error)[: at.start()] if at else str(error)
            self._fail(line, "", f"is not valid TOML: {what}")

    def refuse(self, key: str, text: str, place: Place = TOP, hint: str = "") -> NoReturn:
        """Raise FileError about a key of that table, or about the table itself."""
        start = self._opening(place)
        lines = [n for n in self._lines_with(key) if n >= start]
        self._fail(lines[0] if lines else start, key, text, hint)

    def table(self, value: Any, keys: Collection[str], place: Place = TOP) -> dict[str, Any]:
        """The value if it is a table with none but these keys. Raises FileError."""
        if not isinstance(value, dict):
            self.refuse(place.table, "is a table")
        for key in value:
            if key not in keys:
                near = get_close_matches(key, keys, 1)
                hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(keys)}"
                self.refuse(key, "is not known here", place, hint)
        return value

    def tables(self, name: str, keys: Collection[str]) -> list[tuple[Place, dict[str, Any]]]:
        """Each of the [[name]] tables with its place; none if there is none. Raises FileError."""
        value = self.document.get(name, [])
        if not isinstance(value, list):
            self.refuse(name, f"is written as [[{name}]] tables")
        places = [Place(name, nth) for nth in range(len(value))]
        return [(p, self.table(table, keys, p)) for p, table in zip(places, value, strict=True)]

    def _opening(self, place: Place) -> int:
        lines = self._lines_with(place.table) if place.table else []
        return lines[min(place.nth, len(lines) - 1)] if lines else 0

    def _lines_with(self, key: str) -> list[int]:
        """The lines that set a key or open a table of that name."""
        pattern = re.compile(rf"""^\s*\[*\s*["']?{re.escape(key)}["']?\s*[=\]]""")
        return [n for n, line in enumerate(self._lines, 1) if pattern.match(line)]

    def _fail(self, line: int, key: str, text: str, hint: str = "") -> NoReturn:
        raise FileError(self.path, line, key, text, hint) from None
