"""Near ties: where a greedy answer takes another token in a batch than alone.

Products of other widths add up in another order, so two tokens that are nearly equally likely can
change places. Each prompt is answered alone and then beside others, and the answers compared up to
their first difference: after it they answer different texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from engine.proof.endpoint import UnusableServerError
from engine.proof.prompts import Prompts
from engine.proof.reply import MALFORMED
from engine.proof.traffic import Ask


class Answerer(Protocol):
    """Something that answers with a document in the OpenAI shape."""

    async def document(self, ask: Ask, options: dict[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A greedy token. margin: how much likelier it was than the runner-up, in nats."""

    token: str
    margin: float


class Flip(BaseModel):
    """The first place where an answer in the batch differs. margin: of the choice made alone."""

    position: int
    alone: str
    batched: str
    margin: float


class WidthFlips(BaseModel):
    """Answers given `n` at a time. tokens: compared, a flip's own included."""

    n: int
    answers: int
    tokens: int
    flips: list[Flip]

    @property
    def per_thousand(self) -> float:
        """Flips in a thousand tokens."""
        return 1000 * len(self.flips) / self.tokens if self.tokens else 0.0


class FlipReport(BaseModel):
    """closest: the smallest margin of any token picked alone, in nats."""

    version: int = 1
    command: str
    tool: str
    machine: str
    server: str
    model: str
    tokens_each: int
    closest: float
    widths: list[WidthFlips]


class FlipTest:
    """Asks a server for the same greedy answers alone and `widths` at a time."""

    def __init__(
        self,
        server: Answerer,
        widths: Sequence[int],
        tokens: int,
        repeat: int,
        on_stage: Callable[[str], None],
    ) -> None:
        """repeat: how many times the widest batch is filled with new prompts."""
        self._server = server
        self._widths = [width for width in widths if width > 1]
        self._tokens = tokens
        self._on_stage = on_stage
        prompts = Prompts()
        self._prompts = [prompts.short() for _ in range(repeat * max(widths))]
        self._alone: list[list[Choice]] = []

    async def run(self) -> list[WidthFlips]:
        """One result for each width above one. Raises UnusableServerError."""
        for number, prompt in enumerate(self._prompts, 1):
            self._on_stage(f"alone: answer {number} of {len(self._prompts)}")
            self._alone.append(await self._answer(prompt))
        if not any(self._alone):
            raise UnusableServerError("all its answers are empty: there is nothing to compare")
        return [await self._together(width) for width in self._widths]

    @property
    def closest(self) -> float:
        """The smallest margin of any token picked alone."""
        return min(choice.margin for answer in self._alone for choice in answer)

    async def _together(self, width: int) -> WidthFlips:
        pairs = list(zip(self._prompts, self._alone, strict=True))
        starts = range(0, len(pairs) - width + 1, width)  # full bursts only
        bursts = [pairs[start : start + width] for start in starts]
        result = WidthFlips(n=width, answers=0, tokens=0, flips=[])
        for number, burst in enumerate(bursts, 1):
            self._on_stage(f"{width} at once: burst {number} of {len(bursts)}")
            answers = await asyncio.gather(*(self._answer(prompt) for prompt, _ in burst))
            for (_, alone), answer in zip(burst, answers, strict=True):
                compared, flip = compare(alone, answer)
                result.answers += 1
                result.tokens += compared
                result.flips += [flip] if flip else []
        return result

    async def _answer(self, prompt: str) -> list[Choice]:
        ask = Ask(prompt, self._tokens, stream=False, source="bench flips")
        document = await self._server.document(ask, {"logprobs": True, "top_logprobs": 2})
        try:
            return [_choice(entry) for entry in document["choices"][0]["logprobs"]["content"]]
        except MALFORMED:
            raise UnusableServerError("it answers without top_logprobs of two tokens") from None


def compare(alone: Sequence[Choice], batched: Sequence[Choice]) -> tuple[int, Flip | None]:
    """(tokens compared, the first difference). An answer that ends earlier is compared so far."""
    for position, (first, second) in enumerate(zip(alone, batched, strict=False)):
        if first.token != second.token:
            flip = Flip(
                position=position, alone=first.token, batched=second.token, margin=first.margin
            )
            return position + 1, flip
    return min(len(alone), len(batched)), None


def _choice(entry: Any) -> Choice:
    best, runner_up = sorted((float(top["logprob"]) for top in entry["top_logprobs"]), reverse=True)
    return Choice(str(entry["token"]), best - runner_up)
