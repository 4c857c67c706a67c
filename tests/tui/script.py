"""What a scripted engine is told to do, and the rows it does it with."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from engine.events import ModelInfo
from engine.models.markup import Markup
from engine.types import GenerationRequest, Sink

PROSE = (
    "## Why a circle\nLight enters a **droplet**, bends, reflects off the far side and bends again "
    "on the way out.\n\n- the angle is `42.0` degrees\n- every drop shines back\n\n"
)
ORDERS = {
    "#code": "Here is a loop:\n\n```python\nfor n in range(3):\n    print(n * n)\n```\n\nDone. ",
    "#cjk": "光线进入水滴后会发生折射，然后在背面反射，再次折射离开水滴。日本語もここに。",
    "#emoji": "Sun ☺️ and love ❤️ step 1️⃣ family 👩‍👩‍👧 flag 🇩🇪 wave 👍🏽 done. ",
    "#think": "<think>\nIs it round?\n</think>\n\nYes, **round**.\n\n",
    "#brackets": "[/some/path] a[/]b [bold ",
    "#hold": PROSE,
    "#fail": PROSE,
    "#die": PROSE,
}
"""Words that mean something, and the text they bring; all other words bring PROSE."""


@dataclass(slots=True)
class Script:
    """How the double behaves. rate: tokens a second for each row. tokens: where answers end by
    themselves. prefill_rate: prompt tokens a second. load_seconds: how long it says "loading".
    loading: it says so until this is false. load_error: the load fails with this line. together:
    the first rows start once so many wait. holding: `#hold` holds until this is false. die: what
    `#die` does."""

    slots: int = 8
    queue_limit: int = 256
    rate: float = 30.0
    tokens: int = 200
    prefill_rate: float = 2000.0
    context: int = 8192
    load_seconds: float = 0.0
    loading: bool = False
    load_error: str | None = None
    together: int = 1
    holding: bool = True
    die: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL)


class ScriptedTokenizer:
    """One token a word; 0 is any word but the ORDERS of the last message."""

    words = ("", *ORDERS)
    vocab_size = len(words)
    markup = Markup()

    def chat(self, messages: Sequence[dict[str, Any]], **_: Any) -> list[int]:
        *earlier, last = (str(message["content"]).split() for message in messages)
        orders = [self.words.index(word) if word in ORDERS else 0 for word in last]
        return [0] * (len(messages) + sum(map(len, earlier))) + orders

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [0] * len(text.split())

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        return " ".join(self.words[id] for id in ids)


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    info: ModelInfo
    tokenizer: ScriptedTokenizer = field(default_factory=ScriptedTokenizer)


@dataclass(slots=True)
class Row:
    request: GenerationRequest
    sink: Sink
    queued: float
    slot: int = -1
    prefilled: int = 0
    tokens: int = 0
    pieces: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        text = next((ORDERS[order] for order in self.orders), PROSE)
        words = text.replace(" ", " \0").split("\0")
        self.pieces = cycle(text if "#cjk" in self.orders else words)

    @property
    def orders(self) -> list[str]:
        return [ScriptedTokenizer.words[token] for token in self.request.prompt if token]

    @property
    def read(self) -> bool:
        return self.prefilled == len(self.request.prompt)
