"""Commands and files in what is typed: what Tab makes of a word, what Enter runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

ATTACH_LIMIT = 1_000_000
"""Bytes a file that is attached may have."""


class Completion(Struct, frozen=True):
    """text: what the word becomes. choices: what it may still become. file: the one it names."""

    text: str
    choices: tuple[str, ...] = ()
    file: Path | None = None


class AttachError(Exception):
    """The file can't be attached. `str()` is one line that says why."""


class UnknownCommandError(Exception):
    """Looks like a command. `str()` is one line that says what to do."""


def complete_command(word: str, ids: Iterable[str]) -> Completion | None:
    """`word` begins with "/"; None if no id begins like it."""
    found = sorted(f"/{id}" for id in ids if f"/{id}".startswith(word))
    return Completion(_shared(found), _several(found)) if found else None


def complete_path(word: str) -> Completion | None:
    """`word` begins with "@"; None if no path begins like it. Reads the folder."""
    typed = word[1:]
    folder, _, start = typed.rpartition("/")
    folder += "/" if "/" in typed else ""
    path = Path(typed).expanduser()
    if start and path.is_file():
        return Completion(word, file=path)
    found = [f"@{folder}{name}" for name in _names(Path(folder or ".").expanduser(), start)]
    if not found:
        return None
    if len(found) > 1 or found[0].endswith("/"):
        return Completion(_shared(found), _several(found))
    return Completion(found[0], file=Path(found[0][1:]).expanduser())


def read_attachment(path: Path) -> str:
    """The file's text, exactly. Raises AttachError for what is no text or too much of it."""
    try:
        if path.stat().st_size > ATTACH_LIMIT:
            raise AttachError(f"{path.name} is larger than {ATTACH_LIMIT / 1e6:.0f} MB")
        text = path.read_bytes().decode()
    except OSError as error:
        raise AttachError(f"{path.name} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise AttachError(f"{path.name} is not UTF-8 text")
    return text


def command(text: str, ids: Iterable[str]) -> str | None:
    """The action's id if the text is "/" and an id; None if it is a text to send.

    Raises UnknownCommandError for what looks like a command and is none.
    """
    if not re.fullmatch(r"/[a-z_]+\s*", text):
        return None
    name, known = text.strip()[1:], list(ids)
    if name in known:
        return name
    near = get_close_matches(name, known, 1)
    hint = f" (/{near[0]}?)" if near else ""
    raise UnknownCommandError(f"no action is called /{name}{hint}; a blank before it sends it")


def _shared(found: list[str]) -> str:
    """What all of them begin with. found: sorted."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(found[0], found[-1], strict=False))
    return "".join(character for character, _ in pairs)


def _several(found: list[str]) -> tuple[str, ...]:
    return tuple(found) if len(found) > 1 else ()


def _names(folder: Path, start: str) -> list[str]:
    """What is in the folder and begins like that, folders with a slash; hidden only if asked."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name + ("/" if entry.is_dir() else "")
                for entry in entries
                if entry.name.startswith(start)
                and (start.startswith(".") or not entry.name.startswith("."))
                and not any(character.isspace() for character in entry.name)
            )
    except OSError:
        return []
