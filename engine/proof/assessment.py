"""From rounds of timed requests to what they say: the baseline, each width, each probe. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from engine.proof.probes import Kind, Round, baseline, usual_gap
from engine.proof.shape import Solo
from engine.proof.traffic import Record, timings
from engine.proof.verdict import (
    Finding,
    Name,
    Verdict,
    combined,
    judge_burst,
    judge_joining,
    judge_release,
    overall,
)

CACHED_TTFT = 0.6
"""A repeated prompt whose first token comes within this share of the first time was remembered."""
ABOUT_THE_SERVER = (Kind.STAGGERED, Kind.RELEASE)
"""Probes whose finding adds to the sweep's; the mixed burst's is about such bursts only."""


@dataclass(frozen=True, slots=True)
class WidthResult:
    """What bursts of one width came to, as medians over the repeats that were usable.

    ends: seconds to each completion, in order. climb: the aggregate over that of one alone.
    """

    width: int
    repeats: int
    aggregate: float
    last_end: float
    ends: tuple[float, ...]
    ttft: float
    climb: float | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """finding: None where the sentence is no judgement, or says that nothing is amiss."""

    kind: Kind
    sentence: str
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Everything the rounds say. failed: requests that came to nothing; each reason once."""

    solo: Solo | None
    widths: tuple[WidthResult, ...]
    probes: tuple[ProbeResult, ...]
    verdict: Verdict
    usable: int
    failed: int
    failures: tuple[str, ...] = field(default=())


def assess(rounds: Sequence[Round]) -> Assessment:
    """Judge finished rounds; those cut short count only in the number of usable requests."""
    done = [round_ for round_ in rounds if round_.done]
    solo = baseline(done)
    widths = tuple(_widths(done, solo))
    probes = tuple(result for round_ in done if (result := _probe(round_, solo)))
    records = [record for round_ in rounds for record in round_.records]
    errors = [record.error for record in records if record.error]
    return Assessment(
        solo=solo,
        widths=widths,
        probes=probes,
        verdict=overall(
            (width.verdict for width in widths if width.verdict),
            (p.finding for p in probes if p.finding and p.kind in ABOUT_THE_SERVER),
        ),
        usable=len(timings(records)),
        failed=len(errors),
        failures=tuple(dict.fromkeys(errors)),
    )


def _widths(rounds: Sequence[Round], solo: Solo | None) -> list[WidthResult]:
    sweep = [round_ for round_ in rounds if round_.kind is Kind.SWEEP]
    widths = sorted({round_.width for round_ in sweep})
    results = (_width([r for r in sweep if r.width == width], solo) for width in widths)
    return [result for result in results if result]


def _width(rounds: Sequence[Round], solo: Solo | None) -> WidthResult | None:
    """None when no request of this width came to its end."""
    bursts = [burst for round_ in rounds if (burst := timings(round_.records))]
    if not bursts:
        return None
    width = rounds[0].width
    spans = [max(t.end for t in burst) - min(t.submit for t in burst) for burst in bursts]
    rates = [sum(t.tokens for t in b) / span for b, span in zip(bursts, spans, strict=True)]
    aggregate = median(rates)
    typical = bursts[spans.index(sorted(spans)[(len(spans) - 1) // 2])]
    return WidthResult(
        width=width,
        repeats=len(bursts),
        aggregate=aggregate,
        last_end=median(spans),
        ends=tuple(sorted(t.seconds for t in typical)),
        ttft=median(t.ttft for burst in bursts for t in burst),
        climb=aggregate / solo.rate if solo else None,
        verdict=combined([judge_burst(burst, solo) for burst in bursts]) if width > 1 else None,
    )


def _probe(round_: Round, solo: Solo | None) -> ProbeResult | None:
    match round_.kind:
        case Kind.SWEEP:
            return None
        case Kind.STAGGERED:
            return _staggered(round_, solo)
        case Kind.MIXED:
            verdict = judge_burst(timings(round_.records), solo)
            return ProbeResult(round_.kind, verdict.main.sentence, verdict.main)
        case Kind.JOIN:
            return _join(round_)
        case Kind.RELEASE:
            return _release(round_, solo)
        case Kind.PREFIX:
            return _prefix(round_)
        case Kind.CONTEXT:
            return _context(round_)


def _staggered(round_: Round, solo: Solo | None) -> ProbeResult:
    running, newcomer = (record.timing for record in round_.records)
    if running is None or newcomer is None or solo is None:
        return _untold(round_)
    finding = judge_joining(running, newcomer, solo)
    joined = (
        f"A request sent while another ran got its first token after "
        f"{newcomer.ttft:.2f} s, {running.end - newcomer.first:.2f} s before "
        "the other ended: it joined."
    )
    return ProbeResult(round_.kind, finding.sentence if finding else joined, finding)


def _release(round_: Round, solo: Solo | None) -> ProbeResult:
    ended = timings(round_.records)
    if len(ended) < 2 or solo is None:
        return _untold(round_)
    finding = judge_release(ended, solo)
    ends = ", ".join(f"{t.tokens} tok {t.seconds:.2f} s" for t in ended)
    apart = f"Answers of unequal length each came when they were done: {ends}."
    return ProbeResult(round_.kind, finding.sentence if finding else apart, finding)


def _join(round_: Round) -> ProbeResult:
    *streams, joiner = round_.records
    if joiner.timing is None or not timings(streams):
        return _untold(round_)
    gap = max(record.longest_gap for record in streams)
    return ProbeResult(
        round_.kind,
        f"While {_prompt_size(joiner)} was read, running streams paused for at most {gap:.2f} s "
        f"(usually {usual_gap(streams):.3f} s between tokens); its first token came after "
        f"{joiner.timing.ttft:.2f} s.",
    )


def _prefix(round_: Round) -> ProbeResult:
    ended = timings(round_.records)
    if len(ended) < 2:
        return _untold(round_)
    first, *later = (t.ttft for t in ended)
    kept = median(later) <= CACHED_TTFT * first
    counts = [record.cached_tokens for record in round_.records]
    reported = max((count for count in counts[1:] if count), default=0)
    cached = f"the server counts {reported} cached tokens" if reported else "none counted as cached"
    return ProbeResult(
        round_.kind,
        f"The same prompt sent again got its first token after {median(later):.2f} s, at first "
        f"after {first:.2f} s; {cached}: "
        f"{'prefixes are kept' if kept else 'no prefix is reused as far as time shows'}.",
    )


def _context(round_: Round) -> ProbeResult:
    rates = [
        f"{(t.tokens - 1) / (t.end - t.first):.1f} tok/s after {_prompt_size(record)}"
        for record in round_.records
        if (t := record.timing) and t.end > t.first
    ]
    if not rates:
        return _untold(round_)
    return ProbeResult(round_.kind, f"Decoding alone runs at {', '.join(rates)}.")


def _untold(round_: Round) -> ProbeResult:
    errors = [record.error for record in round_.records if record.error]
    why = errors[0] if errors else "no baseline to compare with"
    sentence = f"Nothing to tell: {why}."
    return ProbeResult(round_.kind, sentence, Finding(Name.INCONCLUSIVE, sentence))


def _prompt_size(record: Record) -> str:
    if record.prompt_tokens is None:
        return "a prompt of unknown length"
    return f"a prompt of {record.prompt_tokens} tokens"
