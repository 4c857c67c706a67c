"""DSpark in the batch: what rows have read is remembered with them, blocks are drafted for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import mlx.core as mx

from engine.cache.attention import SlotKVCache
from engine.cache.protocols import LayerCache, RowCache
from engine.cache.rows import RowLengths
from engine.drafters.base import NONE, Draft, Drafter
from engine.drafters.dspark.model import DSparkModel, Offset
from engine.models.errors import ModelError
from engine.models.taps import Taps
from engine.pick import Pick
from engine.row import Row
from engine.sampling import CANDIDATES, needs_sync, sample


class DSpark(Drafter):
    """Drafts with a loaded checkpoint.

    confidence: a draft is cut before the first token that the checkpoint's confidence head thinks
    the target picks with less than this probability; 0 never cuts. Raises ModelError where it is
    not a probability, or where the target's layers can't be read.
    """

    name = "dspark"

    def __init__(self, model: DSparkModel, target: Any, confidence: float = 0.0) -> None:
        if not 0 <= confidence <= 1:
            raise ModelError(f"a draft's confidence is from 0 to 1, not {confidence}")
        if confidence and model.confidence is None:
            raise ModelError("the drafter has no confidence head; leave the confidence at 0")
        self.longest = model.config.longest
        self._model = model
        self._taps = Taps(target, model.config.taps)
        self._least = confidence

    def context(self, rows: RowLengths) -> list[LayerCache]:
        return [*self._model.contexts(rows)]

    def read(self, target: Any, tokens: mx.array, cache: RowCache) -> mx.array:
        logits, features = self._taps.read(tokens, cache.layers)
        contexts = _contexts(cache)
        self._model.remember(features, contexts)
        # Nothing else asks for these: unevaluated, they would hold every forward until a draft.
        mx.async_eval([array for context in contexts for array in context.arrays()])
        return logits

    def propose(self, rows: Sequence[Row], limits: Sequence[int], cache: RowCache) -> list[Draft]:
        width = min(max(limits, default=0), self.longest)
        if width == 0:
            return [NONE] * len(rows)
        latest = mx.array([row.newest for row in rows], dtype=mx.uint32)
        places = [row.length - 1 for row in rows]
        position: Offset = places[0] if len(rows) == 1 else mx.array(places)
        first = self._model.config.first
        states = self._model.block(latest, position, _contexts(cache))
        tokens, chances = self._chain(states[:, first : first + width], latest, rows)
        mx.eval(tokens, chances)
        drafts = [
            Draft(ids, likely) for ids, likely in zip(_lists(tokens), _lists(chances), strict=True)
        ]
        return [
            draft.cut(min(limit, self._sure(draft)))
            for draft, limit in zip(drafts, limits, strict=True)
        ]

    def _chain(
        self, states: mx.array, latest: mx.array, rows: Sequence[Row]
    ) -> tuple[mx.array, mx.array]:
        """(tokens, chances), each [rows, width], of the places' states; lazy."""
        model, before = self._model, latest
        logits = model.vocabulary.project(states)
        carried = model.markov.start(states) if model.markov else None
        tokens, chances = [], []
        for place in range(states.shape[1]):
            scores, state, embedding = logits[:, place], states[:, place], None
            if model.markov is not None and carried is not None:
                embedding = model.markov.markov_w1(before)
                carried, bias = model.markov.step(carried, embedding, state)
                scores = scores + bias
            before, chance = self._pick(scores, place, rows)
            if model.confidence is not None:
                seen = embedding if model.config.confidence_with_markov else None
                chance = model.confidence(state, seen)[:, 0]
            tokens.append(before)
            chances.append(chance)
        return mx.stack(tokens, axis=1), mx.stack(chances, axis=1)

    def _pick(self, scores: mx.array, place: int, rows: Sequence[Row]) -> tuple[mx.array, mx.array]:
        """(the target's ids, what the drafter gives them), each [rows]. A row that samples does so
        with the random numbers the target will use there, so that agreeing is likely."""
        to_target = self._model.vocabulary.to_target
        picks, scores = [_pick_of(row, place) for row in rows], scores.astype(mx.float32)
        if to_target is not None and any(pick.params.temperature > 0 for pick in picks):
            scores = _spread(scores, to_target, self._model.config.vocabulary)
            to_target = None
        tokens = sample(scores, picks)
        best = mx.take_along_axis(scores, tokens[:, None], axis=-1)[:, 0]
        chances = mx.exp(best - mx.logsumexp(scores, axis=-1))
        return tokens if to_target is None else to_target[tokens], chances

    def _sure(self, draft: Draft) -> int:
        """Tokens before the first that isn't likely enough."""
        doubtful = (index for index, chance in enumerate(draft.chances) if chance < self._least)
        return next(doubtful, len(draft))


def _pick_of(row: Row, place: int) -> Pick:
    """As the target will pick, without penalties, and with no look at more logits than can be
    taken without reading any back."""
    params = row.request.sampling
    if needs_sync(params):
        params = replace(params, top_k=CANDIDATES)
    return Pick(params, row.length + place)


def _spread(scores: mx.array, to_target: mx.array, vocabulary: int) -> mx.array:
    """Scores [rows, draft vocabulary] as the target's [rows, vocabulary]; the rest is never
    picked."""
    rows = scores.shape[0]
    ids = mx.broadcast_to(to_target[None], (rows, to_target.size))
    return mx.put_along_axis(mx.full((rows, vocabulary), -math.inf), ids, scores, axis=-1)


def _contexts(cache: RowCache) -> list[SlotKVCache]:
    return cast("list[SlotKVCache]", cache.context)


def _lists(values: mx.array) -> list[Any]:
    return cast("list[Any]", values.tolist())
