"""A TOML file, and where in it things are: enough to say what is wrong in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, Self

from msgspec import Struct

from dspark_tui.paths import tilde


class Problem(Struct, frozen=True):
    """Something wrong in a file. line 0: about the whole file."""

    file: Path
    line: int
    key: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{tilde(self.file)}:{self.line}" if self.line else tilde(self.file)
        subject = f" {self.key}" if self.key else ""
        return f"{place}:{subject} {self.text}" + (f" ({self.hint})" if self.hint else "")


class FileError(Exception):
    """A file that can't be used. `str()` is one line with the place, the key and a hint."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class MissingFileError(FileError):
    """There is no such file."""


class Place(Struct, frozen=True):
    """A table of the file: the nth of that name, counted from 0. "" is the file's top."""

    table: str = ""
    nth: int = 0


TOP = Place()


class TomlSource:
    """A parsed document. lines: of its text, to say where things are; none: it never was text.

    path: where the text is, or what problems are to name instead.
    """

    def __init__(self, path: Path, document: dict[str, Any], lines: Sequence[str] = ()) -> None:
        self.path, self.document, self._lines = path, document, lines

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file's document. Raises FileError."""
        lines: list[str] = []
        try:
            text = path.read_text(encoding="utf-8-sig")
            lines = text.splitlines()
            return cls(path, tomllib.loads(text), lines)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            kind = MissingFileError if missing else FileError
            text = f"can't be read: {error.strerror or error}"
            raise kind(Problem(path, 0, "", text)) from None
        except UnicodeDecodeError:
            raise FileError(Problem(path, 0, "", "is not UTF-8 text")) from None
        except tomllib.TOMLDecodeError as error:
            at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
            line = int(at[1]) if at and at[1] else len(lines)
            what = str(error)[: at.start()] if at else str(error)
            raise FileError(Problem(path, line, "", f"is not valid TOML: {what}")) from None

    def problem(self, key: str, text: str, place: Place = TOP, hint: str = "") -> Problem:
        """Something wrong with a key of that table, or with the table itself."""
        start = self._opening(place)
        lines = [n for n in self._lines_with(key) if n >= start]
        return Problem(self.path, lines[0] if lines else start, key, text, hint)

    def refuse(self, key: str, text: str, place: Place = TOP, hint: str = "") -> NoReturn:
        """Raise the problem as a FileError."""
        raise FileError(self.problem(key, text, place, hint))

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
        """The lines that set a key or open a table of that name, in whatever table it is."""
        name = rf"""["']?{re.escape(key)}["']?"""
        pattern = re.compile(rf"""^\s*\[*\s*(?:[\w"'-]+\.)*{name}\s*[=\].]""")
        return [n for n, line in enumerate(self._lines, 1) if pattern.match(line)]
