"""What the times of requests say about a server. Pure; one set of names everywhere.

Judged by shape and overlap. Speed alone decides only between `batched` and `lockstep`, which look
the same otherwise. Nothing a server reports about itself is an input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.proof.shape import Shape, Solo, Timing

CLUSTER = 0.25
STAIRCASE = 0.75
REAL_GAIN = 1.3
ENOUGH_TOKENS = 32
"""Of each request, below which nothing is said."""
JITTERS = 3
"""A solo time of fewer jitters than this is drowned by them."""
CLOCK_JITTER = 0.005
"""Seconds any measurement from here may be off, however quiet the machine."""
RELEASED_TOGETHER, RELEASED_APART = 0.25, 0.5
"""Share of the expected distance between a short answer's end and a long one's."""
JOINED, SHUT_OUT = 0.8, 0.95
"""Share of the running request's remaining time the newcomer waited for its first token."""


class Name(StrEnum):
    """A finding, in the order in which one of several speaks for a server."""

    QUEUE = "queue"
    STATIC = "static"
    WINDOW = "window"
    GROUPS = "groups"
    LOCKSTEP = "lockstep"
    MIXED = "mixed"
    BATCHED = "batched"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Finding:
    """sentence: for somebody who never heard of batching, with the figures that decided.

    width: of the groups, where there are groups.
    """

    name: Name
    sentence: str
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """At least one finding. shape: None where there was nothing to measure."""

    findings: tuple[Finding, ...]
    shape: Shape | None = None

    @property
    def main(self) -> Finding:
        order = list(Name)
        return min(self.findings, key=lambda finding: order.index(finding.name))

    @property
    def name(self) -> Name:
        return self.main.name

    def says(self, name: Name) -> bool:
        return any(finding.name is name for finding in self.findings)


def judge_burst(
    timings: Sequence[Timing], solo: Solo | None = None, slots: int | None = None
) -> Verdict:
    """Judge requests that were sent together. slots: how many the server says it runs at once."""
    if len(timings) < 2:
        return _inconclusive("Fewer than two requests can be compared; send at least two.")
    shape = Shape.of(timings, solo)
    if shape.tokens < ENOUGH_TOKENS:
        return _inconclusive(
            f"An answer of {shape.tokens} tokens is too short to tell; ask for at least "
            f"{ENOUGH_TOKENS} and make sure that answers don't end early.",
            shape,
        )
    if solo and (alone := solo.seconds_for(shape.tokens)) < JITTERS * max(
        solo.jitter, CLOCK_JITTER
    ):
        return _inconclusive(
            f"Alone, a request takes {alone:.2f} s, but its times vary by "
            f"{max(solo.jitter, CLOCK_JITTER):.2f} s: too much to tell. Ask for more tokens.",
            shape,
        )
    return Verdict(_findings(shape, slots), shape)


def judge_joining(running: Timing, newcomer: Timing, solo: Solo) -> Finding | None:
    """Whether a request can join one that runs. None: it can; a finding if not, or untold."""
    waited, room = newcomer.ttft, running.end - newcomer.submit
    if room < JITTERS * max(solo.ttft, solo.jitter, CLOCK_JITTER):
        return Finding(
            Name.INCONCLUSIVE,
            "The first request was nearly done when the second was sent, so whether one can join "
            "the other isn't known; ask for more tokens.",
        )
    if waited <= JOINED * room:
        return None
    if waited >= SHUT_OUT * room:
        return Finding(
            Name.WINDOW,
            f"A request that came {room:.1f} s before the running one ended got its first token "
            f"after {waited:.1f} s: nobody can join a batch that has started.",
        )
    return Finding(
        Name.INCONCLUSIVE,
        f"A request sent while another ran waited {waited:.1f} of the other's remaining "
        f"{room:.1f} s: neither joined at once nor shut out.",
    )


def judge_release(timings: Sequence[Timing], solo: Solo) -> Finding | None:
    """Whether answers of unequal length are held until the longest is done.

    timings: not streamed, sent together. None: each is released when it is done.
    """
    if len(timings) < 2:
        return None
    shortest = min(timings, key=lambda timing: timing.tokens)
    longest = max(timings, key=lambda timing: timing.tokens)
    expected = (longest.tokens - shortest.tokens) * solo.step
    if expected < JITTERS * max(solo.jitter, CLOCK_JITTER):
        return Finding(
            Name.INCONCLUSIVE,
            "Short and long answers took too nearly the same time to tell whether the short ones "
            "are held back.",
        )
    ends = [timing.seconds for timing in timings]
    apart = max(ends) - min(ends)
    if apart <= RELEASED_TOGETHER * expected:
        return Finding(
            Name.STATIC,
            f"Answers of {shortest.tokens} to {longest.tokens} tokens came back within "
            f"{apart:.1f} s of each other, though their lengths are {expected:.1f} s apart: the "
            "short ones are held until the longest is done.",
        )
    if apart >= RELEASED_APART * expected:
        return None
    return Finding(
        Name.INCONCLUSIVE,
        f"Short answers came {apart:.1f} s before long ones where {expected:.1f} s were due: "
        "whether they are held back isn't clear.",
    )


def overall(bursts: Iterable[Verdict], others: Iterable[Finding] = ()) -> Verdict:
    """The whole server's. bursts: from narrow to wide; the widest that tells anything decides.

    others: what probes found. A queue explains by itself why nobody can join.
    """
    judged = list(bursts)
    telling = [verdict for verdict in judged if verdict.name is not Name.INCONCLUSIVE]
    if not telling:
        return judged[-1] if judged else _inconclusive("No two requests could be compared.")
    widest = telling[-1]
    if widest.name is Name.QUEUE:
        return widest
    known = {finding.name for finding in widest.findings} | {Name.INCONCLUSIVE}
    more = (finding for finding in others if finding.name not in known)
    return Verdict((*widest.findings, *more), widest.shape)


def combined(repeats: Sequence[Verdict]) -> Verdict:
    """One verdict for several bursts of the same width: what most of them say."""
    names = [verdict.name for verdict in repeats]
    name = max(names, key=names.count)
    if names.count(name) * 2 > len(names):
        alike = sorted(
            (verdict for verdict in repeats if verdict.name is name),
            key=lambda verdict: verdict.shape.seconds if verdict.shape else 0.0,
        )
        return alike[(len(alike) - 1) // 2]
    told = ", ".join(dict.fromkeys(names))
    sentence = f"Repeats of the same burst differ ({told}); run it again on a quieter machine."
    return Verdict((Finding(Name.MIXED, sentence),), repeats[-1].shape)


def _findings(shape: Shape, slots: int | None) -> tuple[Finding, ...]:
    n, waves = shape.requests, shape.waves
    if len(waves) == n and shape.spread >= STAIRCASE:
        return (_queue(shape),)
    if len(waves) == n or shape.wave_spread > CLUSTER:
        return (_mixed(shape),)
    if len(waves) == 1:
        return (_together(shape, f"All {n} ran together", n),)
    if waves[0] < max(waves):
        return (_shut_out(shape),)
    if len(set(waves[:-1])) > 1:
        return (_mixed(shape),)
    width = waves[0]
    limit = f", as many as it has slots: {slots}" if slots == width else ""
    groups = Finding(
        Name.GROUPS,
        f"{n} requests ran in groups of {_listed(waves)}, each starting when the one before was "
        f"done: the server runs {width} at a time{limit}.",
        width,
    )
    return (groups, _together(shape, f"Within a group all {width} ran together", width))


def _queue(shape: Shape) -> Finding:
    n, gain = shape.requests, shape.gain
    flat = f" All {n} took as long as {n / gain:.1f} requests alone." if gain else ""
    return Finding(
        Name.QUEUE,
        f"One after another: each request began when the one before had ended, and their ends are "
        f"a staircase (spread {shape.spread:.2f}).{flat}",
    )


def _together(shape: Shape, lead: str, width: int) -> Finding:
    """A cluster: whether anything was gained decides its name."""
    weak = " Two requests are weak evidence." if width == 2 else ""
    facts = f"{lead} and ended together (spread {shape.wave_spread:.2f}"
    if shape.gain is None:
        return Finding(
            Name.INCONCLUSIVE,
            f"{facts}), but there is no baseline: whether together is faster than one by one shows "
            "once a request has run alone.",
        )
    if shape.gain >= REAL_GAIN:
        return Finding(
            Name.BATCHED,
            f"{facts}), at {shape.gain:.2f}x the tokens a second of one alone: they share each "
            f"step.{weak}",
        )
    return Finding(
        Name.LOCKSTEP,
        f"{facts}), yet at only {shape.gain:.2f}x the tokens a second of one alone: side by side, "
        f"and next to nothing gained.{weak}",
    )


def _shut_out(shape: Shape) -> Finding:
    return Finding(
        Name.WINDOW,
        f"Of {shape.requests} requests sent together, {shape.waves[0]} started and the others had "
        f"to wait until that was done (groups of {_listed(shape.waves)}): nobody can join a batch "
        "that has started.",
    )


def _mixed(shape: Shape) -> Finding:
    return Finding(
        Name.MIXED,
        f"Neither a staircase nor a cluster: the ends have a spread of {shape.spread:.2f} (0 is a "
        f"cluster, 1 a staircase), and for {shape.overlap:.0%} of the time at least two answers "
        "grew.",
    )


def _inconclusive(sentence: str, shape: Shape | None = None) -> Verdict:
    return Verdict((Finding(Name.INCONCLUSIVE, sentence),), shape)


def _listed(waves: Sequence[int]) -> str:
    return "+".join(map(str, waves))
