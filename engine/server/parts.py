"""Tell an answer's thoughts, text and tool calls apart while it is being written."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from engine.models.markup import Markup


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A whole tool call. arguments: a JSON object."""

    id: str
    name: str
    arguments: str


Part = Thought | Said | Called


@dataclass(frozen=True, slots=True)
class Manner:
    """How the answer to a request is written.

    thinking: the prompt ends in the middle of thoughts. tools: what the model may call, in OpenAI's
    form. only_call: the whole answer is one call, as a JSON object.
    """

    markup: Markup
    thinking: bool = False
    tools: Sequence[dict[str, Any]] = ()
    only_call: bool = False


class Zone(Enum):
    START = auto()
    THOUGHT = auto()
    TEXT = auto()
    CALL = auto()


class PartReader:
    """Text in, parts out. Tags are found wherever the pieces are cut and are in no part.

    What was meant to be a call and is none comes out as text: nothing the model wrote is lost.
    """

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._markup = manner.markup
        self._zone = Zone.THOUGHT if manner.thinking else Zone.START
        self._held = ""
        self._blank = manner.thinking or bool(manner.tools)
        """Whether white space that comes next only sets parts apart."""

    def push(self, text: str) -> list[Part]:
        self._held += text
        return self._read(ended=False)

    def flush(self) -> list[Part]:
        """The rest, once the answer has ended, wherever that was."""
        return self._read(ended=True)

    def _read(self, ended: bool) -> list[Part]:
        parts: list[Part] = []
        zone = None
        while zone is not self._zone:  # each new zone may end in what is held already
            zone = self._zone
            match zone:
                case Zone.START:
                    self._begin(ended)
                case Zone.THOUGHT:
                    if text := self._until(self._markup.think_end, self._answering, ended):
                        parts.append(Thought(text))
                case Zone.TEXT:
                    if text := self._text(ended):
                        parts.append(Said(text))
                case Zone.CALL:
                    parts += self._calls(ended)
        return parts

    @property
    def _answering(self) -> Zone:
        return Zone.CALL if self._manner.only_call else Zone.TEXT

    def _begin(self, ended: bool) -> None:
        """Thoughts come first or not at all: a tag in the middle of a text is a part of it."""
        start, tag = self._held.lstrip(), self._markup.think_start
        if start.startswith(tag):
            self._enter(Zone.THOUGHT, start.removeprefix(tag))
        elif ended or not tag.startswith(start):
            self._zone = self._answering

    def _text(self, ended: bool) -> str:
        if self._manner.tools:
            return self._until(self._markup.call_start, Zone.CALL, ended)
        text, self._held = self._held, ""
        return self._trimmed(text)

    def _calls(self, ended: bool) -> list[Part]:
        markup, only = self._markup, self._manner.only_call
        end = "" if only else markup.call_end
        if end and end in self._held:
            inner, rest = self._held.split(end, 1)
            self._enter(Zone.TEXT, rest)
            return self._parsed(inner, f"{markup.call_start}{inner}{end}")
        if not ended or not self._held:
            return []
        inner, self._held = self._held, ""
        written = inner if only else markup.call_start + inner
        return [Said(written)] if end else self._parsed(inner, written)

    def _parsed(self, inner: str, written: str) -> list[Part]:
        """The calls in a piece of text, or the text as it was written if it holds none."""
        parse = json.loads if self._manner.only_call else self._parse
        try:
            found = parse(inner)
            calls: list[Part] = [_call(c) for c in (found if isinstance(found, list) else [found])]
        except Exception:  # parsers fail in many ways, and the text is the model's
            calls = []
        return calls or [Said(written)]

    def _parse(self, inner: str) -> Any:
        return self._markup.parse_call(inner, self._manner.tools)

    def _until(self, tag: str, following: Zone, ended: bool) -> str:
        """What comes before a tag; enters the zone that follows it. A tail that may turn out to be
        the tag's beginning is held back."""
        text, found, rest = self._held.partition(tag)
        if found:
            text = self._trimmed(text)
            self._enter(following, rest)
            return text
        keep = 0 if ended else _overlap(text, tag)
        cut = len(text) - keep
        self._held = text[cut:]
        return self._trimmed(text[:cut])

    def _trimmed(self, text: str) -> str:
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        return text

    def _enter(self, zone: Zone, rest: str) -> None:
        self._zone, self._held, self._blank = zone, rest, True


def _overlap(text: str, tag: str) -> int:
    """Length of the longest tail of the text that begins the tag."""
    longest = min(len(text), len(tag) - 1)
    return next((n for n in range(longest, 0, -1) if tag.startswith(text[-n:])), 0)


def _call(call: Mapping[str, Any]) -> Called:
    """A parser's finding. Raises for what is no call."""
    name, arguments = call["name"], call.get("arguments", call.get("parameters", {}))
    if not isinstance(name, str) or not name:
        raise ValueError("a call without a name")
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not isinstance(arguments, dict):
        raise ValueError("arguments that are no object")
    return Called(_id(call.get("id")), name, json.dumps(arguments, ensure_ascii=False))


def _id(given: object) -> str:
    return given if isinstance(given, str) and given else f"call_{secrets.token_hex(12)}"
