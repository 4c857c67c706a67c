"""What a verify forward costs here, beside a plain one, and so how long a draft pays.

Batching and speculation are substitutes: both fill the arithmetic that reading the weights leaves
idle. Where the slots are full, a wider forward costs nearly what it saves, and the right length is
often none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from engine.drafters.base import Draft

MARGIN = 1.03
"""How much faster than plain decoding a draft has to promise to be worth it."""

NEWEST, SURPRISE = 0.15, 0.5
"""Weight of the newest time in a running mean, and of one that is worse than expected."""

SCARCELY = 0.05
"""Tokens of all rows that the next place of their drafts has to promise: what lies beyond is not
even weighed."""

SHALLOW = 255
"""Tokens of rows that count as short."""

DOUBT = 0.999
"""What a cost that kept a draft from being tried is multiplied by, each time."""


@dataclass(slots=True)
class VerifyCosts:
    """Costs of forwards by rows and width, in plain forwards of as many rows.

    Kept as ratios, so that what slows all forwards, a busy machine say, changes none of them.
    ratios: by rows, then by width; interpolated between, the nearest rows used beyond. plain: the
    latest milliseconds of a plain forward, by rows.
    """

    ratios: dict[int, dict[int, float]] = field(default_factory=dict)
    plain: dict[int, float] = field(default_factory=dict)

    def ratio(self, rows: int, width: int) -> float:
        """What a forward `width` wide costs."""
        if width <= 1:
            return 1.0
        if rows in self.ratios:
            return _between(self.ratios[rows], width)
        points = {have: _between(curve, width) for have, curve in self.ratios.items()}
        return _between(points, rows, beyond=False) if points else float(width)

    def record(self, rows: int, width: int, milliseconds: float) -> None:
        """A forward of `rows` rows, as the loop sees it, took so long."""
        if width == 1:
            known = self.plain.get(rows, milliseconds)
            self.plain[rows] = known + NEWEST * (milliseconds - known)
        elif rows in self.plain:
            expected = self.ratio(rows, width)
            observed = milliseconds / self.plain[rows]
            observed = min(max(observed, 1.0), expected * 2)  # one hiccup is no measure
            weight = SURPRISE if observed > expected else NEWEST
            self._put(rows, width, expected + weight * (observed - expected))

    def doubt(self, rows: int, width: int) -> None:
        """A forward is not tried because of its cost. Believe that a little less each time: what
        was once too dear, or was measured at a bad moment, gets its chance, if seldom."""
        self._put(rows, width, max(self.ratio(rows, width) * DOUBT, 1.0))

    def _put(self, rows: int, width: int, ratio: float) -> None:
        self.ratios.setdefault(rows, self._curve(rows))[width] = ratio

    def _curve(self, rows: int) -> dict[int, float]:
        """What is thought of so many rows, at every width that was measured of any."""
        widths = {width for curve in self.ratios.values() for width in curve}
        return {width: self.ratio(rows, width) for width in {1, *widths}}


class CostsByDepth:
    """The costs for rows of less than 256 tokens, 512, 1024 and so on, each followed apart.

    Attention to long rows adds more to a wide forward than to a plain one, on a CPU above all. A
    depth that is new begins with what is known of the nearest.
    """

    def __init__(self, costs: VerifyCosts) -> None:
        """costs: measured with short rows."""
        self._costs = {SHALLOW.bit_length(): costs}

    def at(self, tokens: int) -> VerifyCosts:
        """tokens: of the longest row."""
        depth = max(tokens, SHALLOW).bit_length()
        if depth not in self._costs:
            nearest = min(self._costs, key=lambda known: abs(known - depth))
            self._costs[depth] = deepcopy(self._costs[nearest])
        return self._costs[depth]


@dataclass(frozen=True, slots=True)
class Choice:
    """How long this step's drafts are. length: the longest of them, 0 for none. width: of the
    forward. gain: tokens expected of it. speed: tokens in the time of one plain forward; plain:
    the same without drafts. refused: the (width, cost) that came nearest where none paid."""

    length: int
    width: int
    gain: float
    speed: float
    plain: float
    refused: tuple[int, float] | None = None


def choose(
    costs: VerifyCosts, drafts: Sequence[Draft], unread: Sequence[int], trust: Sequence[float]
) -> Choice:
    """The length, of all up to the longest draft, that promises most tokens per second.

    unread: tokens each row has to read besides its draft. trust: for each row, what share of what
    the chances promise to count on.
    """
    rows, longest = len(drafts), max(map(len, drafts), default=0)
    alive = [*trust]
    gain = float(rows)
    plain_width = max(unread)
    plain = gain / costs.ratio(rows, plain_width)
    none = Choice(0, plain_width, gain, plain, plain)
    nearest: Choice | None = None
    for length in range(1, longest + 1):
        for row, draft in enumerate(drafts):
            alive[row] *= draft.chances[length - 1] if length <= len(draft) else 0.0
        more = sum(alive)
        gain += more
        width = max(
            have + min(length, len(draft)) for have, draft in zip(unread, drafts, strict=True)
        )
        candidate = Choice(length, width, gain, gain / costs.ratio(rows, width), plain)
        if nearest is None or candidate.speed > nearest.speed:
            nearest = candidate
        if more < SCARCELY:
            break
    if nearest is None:
        return none
    if nearest.speed >= MARGIN * plain:
        return nearest
    return replace(none, refused=(nearest.width, costs.ratio(rows, nearest.width)))


def _between(curve: dict[int, float], at: int, beyond: bool = True) -> float:
    """The curve's value there: a line between its points, and after the last one if `beyond`."""
    if at in curve:
        return curve[at]
    xs = sorted(curve)
    if len(xs) == 1:
        return curve[xs[0]]
    place = bisect_left(xs, at)
    if not beyond and place in (0, len(xs)):
        return curve[xs[0 if place == 0 else -1]]
    low, high = (xs[-2], xs[-1]) if place == len(xs) else (xs[max(place - 1, 0)], xs[max(place, 1)])
    slope = (curve[high] - curve[low]) / (high - low)
    return curve[low] + slope * (at - low)
