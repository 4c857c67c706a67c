"""Log-probabilities of a prompt's own tokens, taken slice by slice as it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

import mlx.core as mx

from engine.logprobs import Scores
from engine.types import Scored

AT_ONCE = 256
"""Tokens of a slice whose logits are wanted: a whole vocabulary for each is in memory together."""


@dataclass(slots=True)
class PromptScores:
    """What is known so far of the prompt of one row that asked.

    width: alternatives for each token. scored: of the prompt's second token and those after it; by
    the model's own distribution, which no sampling parameter touches.
    """

    prompt: tuple[int, ...]
    width: int
    scored: list[Scored] = field(default_factory=list)

    def take(self, logits: mx.array, read: int) -> None:
        """Score what follows the token at `read` and those after it. logits: [tokens, vocabulary],
        the model's after each. Waits for them."""
        following = self.prompt[read + 1 : read + 1 + logits.shape[0]]
        scores = Scores.of(logits, mx.array(following), [self.width] * len(following))
        if scores is not None:
            self.scored += [each for each in scores.read(following) if each is not None]

    def restart(self) -> None:
        """The prompt will be read from its beginning again."""
        self.scored.clear()
