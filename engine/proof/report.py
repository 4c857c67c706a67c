"""The report of a bench as JSON. Version 1; fields may be added to it, none changed or removed.

Times are seconds on the clock of whoever measured, from the beginning of their round. Everything
but `rounds` follows from `rounds`: anyone can compute it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.proof.assessment import ProbeResult, WidthResult, assess
from engine.proof.notes import Circumstances, not_tested, notes
from engine.proof.probes import Kind, Plan, Round
from engine.proof.shape import Solo
from engine.proof.traffic import Ask, Record
from engine.proof.verdict import Finding, Name, Verdict

DIGITS = 5
"""Of a second's fraction; finer than any clock here tells."""


class _Model(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class FindingReport(_Model):
    name: Name
    sentence: str
    width: int | None = None
    """How many requests run at once, where the finding is `groups`."""

    @classmethod
    def of(cls, finding: Finding) -> FindingReport:
        return cls(name=finding.name, sentence=finding.sentence, width=finding.width)


class ShapeReport(_Model):
    """The figures that decided."""

    requests: int
    tokens: int
    """The first so many of each request were compared."""
    spread: float
    """Of the ends: 0 a cluster, 1 a staircase."""
    overlap: float
    """Share of the busy time in which at least two answers grew."""
    waves: list[int]
    """Requests in each group that ran after another."""
    gain: float | None
    """How much sooner than one after the other; null without a baseline."""

    @classmethod
    def of(cls, verdict: Verdict) -> ShapeReport | None:
        shape = verdict.shape
        if shape is None:
            return None
        return cls(
            requests=shape.requests,
            tokens=shape.tokens,
            spread=round(shape.spread, 3),
            overlap=round(shape.overlap, 3),
            waves=list(shape.waves),
            gain=None if shape.gain is None else round(shape.gain, 3),
        )


class BaselineReport(_Model):
    """One request alone, the middle one of several."""

    ttft: float
    seconds: float
    tokens: int
    tokens_per_second: float
    jitter: float

    @classmethod
    def of(cls, solo: Solo) -> BaselineReport:
        return cls(
            ttft=round(solo.ttft, DIGITS),
            seconds=round(solo.seconds, DIGITS),
            tokens=solo.tokens,
            tokens_per_second=round(solo.rate, 3),
            jitter=round(solo.jitter, DIGITS),
        )


class WidthReport(_Model):
    """Bursts of one width: medians over the repeats."""

    n: int
    repeats: int
    tokens_per_second: float
    """All tokens over the time from the first submission to the last completion."""
    climb: float | None
    """That over the rate of one alone."""
    last_end: float
    ends: list[float]
    """Seconds from submission to each completion, in order, of a typical repeat."""
    ttft: float
    verdict: Name | None
    findings: list[FindingReport]
    figures: ShapeReport | None

    @classmethod
    def of(cls, result: WidthResult) -> WidthReport:
        verdict = result.verdict
        return cls(
            n=result.width,
            repeats=result.repeats,
            tokens_per_second=round(result.aggregate, 3),
            climb=None if result.climb is None else round(result.climb, 3),
            last_end=round(result.last_end, DIGITS),
            ends=[round(end, DIGITS) for end in result.ends],
            ttft=round(result.ttft, DIGITS),
            verdict=verdict.name if verdict else None,
            findings=[FindingReport.of(f) for f in verdict.findings] if verdict else [],
            figures=ShapeReport.of(verdict) if verdict else None,
        )


class ProbeReport(_Model):
    kind: Kind
    sentence: str
    finding: Name | None
    """Null where the probe only measures, or found nothing amiss."""

    @classmethod
    def of(cls, result: ProbeResult) -> ProbeReport:
        finding = result.finding.name if result.finding else None
        return cls(kind=result.kind, sentence=result.sentence, finding=finding)


class RequestReport(_Model):
    submit: float | None
    first: float | None
    end: float | None
    tokens: int
    tokens_reported: int | None
    """By the server's usage; null where it gave none and tokens were counted as they came."""
    max_tokens: int
    temperature: float
    seed: int | None
    stream: bool
    prompt_tokens: int | None
    cached_tokens: int | None
    arrivals: list[float]
    error: str | None

    @classmethod
    def of(cls, record: Record, begun: float) -> RequestReport:
        def since(time: float | None) -> float | None:
            return None if time is None else round(time - begun, DIGITS)

        return cls(
            submit=since(record.submit),
            first=since(record.first),
            end=since(record.end),
            tokens=record.tokens,
            tokens_reported=record.reported,
            max_tokens=record.ask.max_tokens,
            temperature=record.ask.temperature,
            seed=record.ask.seed,
            stream=record.ask.stream,
            prompt_tokens=record.prompt_tokens,
            cached_tokens=record.cached_tokens,
            arrivals=[round(time - begun, DIGITS) for time in record.arrivals],
            error=record.error,
        )

    def record(self) -> Record:
        """What was measured, without the prompt."""
        ask = Ask("", self.max_tokens, self.temperature, self.seed, self.stream)
        return Record(
            ask,
            self.submit,
            list(self.arrivals),
            self.end,
            self.tokens,
            self.tokens_reported,
            self.prompt_tokens,
            self.cached_tokens,
            self.error,
        )


class RoundReport(_Model):
    kind: Kind
    repeat: int
    done: bool
    """False for the round that was running when the bench was stopped."""
    requests: list[RequestReport]

    @classmethod
    def of(cls, round_: Round) -> RoundReport:
        return cls(
            kind=round_.kind,
            repeat=round_.repeat,
            done=round_.done,
            requests=[RequestReport.of(record, round_.begun) for record in round_.records],
        )

    def round(self) -> Round:
        records = [request.record() for request in self.requests]
        return Round(self.kind, records, self.repeat, 0.0, self.done)


class Report(_Model):
    version: Literal[1] = 1
    verdict: Name
    sentence: str
    findings: list[FindingReport]
    figures: ShapeReport | None
    command: str
    tool: str
    created: str
    machine: str
    """Where the measuring client ran."""
    server: str
    model: str
    tokens: int
    """Asked for in each answer of the sweep."""
    fixed_length: list[str]
    """Options the server took that keep answers from ending early."""
    interrupted: bool
    baseline: BaselineReport | None
    widths: list[WidthReport]
    probes: list[ProbeReport]
    notes: list[str]
    not_tested: list[str]
    usable_requests: int
    failed_requests: int
    failures: list[str]
    rounds: list[RoundReport] = Field(repr=False)

    @classmethod
    def of(cls, rounds: Sequence[Round], plan: Plan, circumstances: Circumstances) -> Report:
        kept = [RoundReport.of(round_) for round_ in rounds]
        result = assess([round_.round() for round_ in kept])  # so that a file says what we said
        return cls(
            verdict=result.verdict.name,
            sentence=result.verdict.main.sentence,
            findings=[FindingReport.of(finding) for finding in result.verdict.findings],
            figures=ShapeReport.of(result.verdict),
            command=circumstances.command,
            tool=circumstances.tool,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=circumstances.machine,
            server=circumstances.server,
            model=circumstances.model,
            tokens=plan.tokens,
            fixed_length=list(circumstances.fixed_length),
            interrupted=circumstances.interrupted,
            baseline=BaselineReport.of(result.solo) if result.solo else None,
            widths=[WidthReport.of(width) for width in result.widths],
            probes=[ProbeReport.of(probe) for probe in result.probes],
            notes=list(notes(rounds, result, circumstances)),
            not_tested=list(not_tested(rounds, plan)),
            usable_requests=result.usable,
            failed_requests=result.failed,
            failures=list(result.failures),
            rounds=kept,
        )
