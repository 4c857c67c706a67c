"""One row's choice of a token: everything it depends on besides the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.types import SamplingParams

_MASK64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Pick:
    """The choice of the token at `position`, the absolute index it will have.

    prompt, tokens: the row's history. `tokens` (generated ones) may lack the newest, which can
    still be on the device, and may be a list that goes on growing: only `position` says how much
    of it counts.
    """

    params: SamplingParams
    position: int
    prompt: Sequence[int] = ()
    tokens: Sequence[int] = ()

    @property
    def answers(self) -> bool:
        """Whether the newest token is a generated one; before the first, it is the prompt's."""
        return self.position > len(self.prompt)

    @property
    def generated(self) -> Sequence[int]:
        """The generated tokens before the newest."""
        return self.tokens[: max(self.position - len(self.prompt) - 1, 0)]

    def recent(self, count: int) -> list[int]:
        """The last `count` tokens before the newest, prompt included."""
        end, split = self.position - 1, len(self.prompt)
        start = max(end - count, 0)
        generated = self.tokens[max(start - split, 0) : max(end - split, 0)]
        return [*self.prompt[start : max(end, 0)], *generated]

    @property
    def key(self) -> tuple[int, int]:
        """The key of this choice's random numbers, two 32-bit words."""
        word = self._mixed(0)
        return word >> 32, word & 0xFFFFFFFF

    @property
    def coin(self) -> float:
        """A number in [0, 1) that has nothing to do with the key's."""
        return self._mixed(1) / 2**64

    def _mixed(self, stream: int) -> int:
        """64 bits from (seed, position, stream), mixed so that neighbouring seeds and positions
        share nothing (the finaliser of SplitMix64)."""
        word = self.params.seed * 0x9E3779B97F4A7C15 + self.position * 0xD1B54A32D192ED03
        word = (word + stream * 0x2545F4914F6CDD1D) & _MASK64
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK64
        return word ^ (word >> 31)
