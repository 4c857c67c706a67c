"""What a report says beside its figures: how they came about, and what nobody looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.proof.assessment import Assessment
from engine.proof.probes import PROBES, Kind, Plan, Round

QUESTIONS = {
    Kind.STAGGERED: "can a request join one that runs?",
    Kind.MIXED: "do requests with other temperatures and seeds share a batch?",
    Kind.JOIN: "how long does a long prompt hold up running streams?",
    Kind.RELEASE: "are short answers held until the longest is done?",
    Kind.PREFIX: "is a repeated prompt read again?",
    Kind.CONTEXT: "how does the decode rate fall with the context?",
}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a report says besides the measurements. fixed_length: the options by which the server
    keeps answers from ending early, as far as it took them."""

    command: str
    tool: str
    machine: str
    server: str
    model: str
    fixed_length: tuple[str, ...]
    interrupted: bool = False


def notes(
    rounds: Sequence[Round], result: Assessment, circumstances: Circumstances
) -> Iterator[str]:
    """How the figures came about."""
    if circumstances.interrupted:
        yield "Stopped before the end; this is what there was."
    records = [record for round_ in rounds for record in round_.records]
    ended = [record for record in records if record.timing]
    short = sum(record.tokens < record.ask.max_tokens for record in ended)
    options = " and ".join(circumstances.fixed_length)
    if short:
        asked = f" in spite of {options}" if options else ""
        yield (
            f"{short} of {len(ended)} answers ended early{asked}; of a burst, the tokens "
            "all its requests reached are compared."
        )
    elif options and ended:
        yield f"Every answer has the length asked for; {options} asked for it too."
    elif ended:
        yield "Every answer has the length asked for."
    counted = sum(record.reported is None for record in ended)
    if counted:
        yield f"Tokens of {counted} of {len(ended)} requests are counted pieces: no usage came."
    elif ended:
        yield "Token counts are the server's usage; all times are ours."
    if result.failed:
        yield f"{result.failed} requests failed: {'; '.join(result.failures[:3])}."


def not_tested(rounds: Sequence[Round], plan: Plan) -> Iterator[str]:
    """Questions this bench leaves open."""
    done = {round_.kind for round_ in rounds if round_.done}
    for kind in PROBES:
        if kind not in done:
            yield f"{kind}: {QUESTIONS[kind]}"
    yield f"more than {max(plan.widths)} requests at once, answers over {plan.tokens} tokens"
