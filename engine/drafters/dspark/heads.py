"""The small heads that turn a block's states into drafts, one place after the other.

The block's states know nothing of which tokens were drafted before them; a Markov head adds that to
the logits, and the confidence head tells how likely the target agrees.
"""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn

from engine.drafters.dspark.config import DSparkConfig


class MarkovHead(nn.Module):
    """A bias from the token before, as a product of two thin matrices.

    Tokens are the target's ids, biases the drafter's vocabulary.
    """

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        self.rank = config.rank
        self.markov_w1 = nn.Embedding(config.vocabulary, config.rank)
        self.markov_w2 = nn.Linear(config.rank, config.draft_vocabulary, bias=False)

    def start(self, states: mx.array) -> mx.array:
        """What is handed from place to place, [rows, rank], for a block's states [rows, block,
        hidden]; only `RnnHead` changes it."""
        return mx.zeros((states.shape[0], self.rank), states.dtype)

    def step(
        self, carried: mx.array, before: mx.array, state: mx.array
    ) -> tuple[mx.array, mx.array]:
        """(what to hand on, bias [rows, draft vocabulary]) for one place.

        before: [rows, rank], the embedding of the token before it. state: [rows, hidden].
        """
        return carried, self.markov_w2(before)


class GatedHead(MarkovHead):
    """The state at the place decides how much of the token before counts."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__(config)
        self.gate_proj = nn.Linear(config.hidden + config.rank, config.rank)

    def step(
        self, carried: mx.array, before: mx.array, state: mx.array
    ) -> tuple[mx.array, mx.array]:
        gate = mx.sigmoid(self.gate_proj(mx.concatenate([state, before], axis=-1)))
        return carried, self.markov_w2(gate * before)


class RnnHead(MarkovHead):
    """All tokens drafted before count, through a state of the head's own."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__(config)
        self.joint_proj = nn.Linear(2 * config.rank + config.hidden, 3 * config.rank)

    def step(
        self, carried: mx.array, before: mx.array, state: mx.array
    ) -> tuple[mx.array, mx.array]:
        joint = self.joint_proj(mx.concatenate([carried, before, state], axis=-1))
        keep, candidate, output = mx.split(joint, 3, axis=-1)
        keep = mx.sigmoid(keep)
        carried = keep * carried + (1 - keep) * mx.tanh(candidate)
        return carried, self.markov_w2(mx.tanh(output))


class ConfidenceHead(nn.Module):
    """How likely the target picks the draft at a place, if it picked all before it."""

    def __init__(self, config: DSparkConfig) -> None:
        super().__init__()
        extra = config.rank if config.confidence_with_markov else 0
        self.proj = nn.Linear(config.hidden + extra, 1)

    def __call__(self, state: mx.array, before: mx.array | None) -> mx.array:
        """[..., 1], from states [..., hidden] and, where it wants them, the embeddings of the
        tokens before [..., rank]."""
        if before is not None:
            state = mx.concatenate([state, before], axis=-1)
        return mx.sigmoid(self.proj(state))


MARKOV_HEADS: dict[str, type[MarkovHead]] = {
    "vanilla": MarkovHead,
    "gated": GatedHead,
    "rnn": RnnHead,
}
