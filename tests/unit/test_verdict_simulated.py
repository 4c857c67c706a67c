"""The whole examination on servers of known behaviour, jitter included, fifty seeds each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from engine.proof.assessment import Assessment, assess
from engine.proof.probes import Examination, Kind, Plan
from engine.proof.verdict import Name
from tests.proof import simulated
from tests.proof.simulated import Behaviour, Break, SimulatedServer, virtually

SEEDS = 50
RIGHT = 49
PLAN = Plan((1, 2, 4, 8), tokens=48, repeat=1, probes=(Kind.STAGGERED, Kind.RELEASE))


def examined(behaviour: Behaviour, seed: int, plan: Plan = PLAN) -> Assessment:
    async def examine() -> Assessment:
        async with SimulatedServer(behaviour, seed) as server:
            examination = Examination(server, plan)
            await examination.run()
            return assess(examination.rounds)

    return virtually(examine)


KNOWN = {
    "serial": (simulated.SERIAL, {Name.QUEUE}),
    "constant": (simulated.CONSTANT, {Name.BATCHED}),
    "lockstep": (simulated.LOCKSTEP, {Name.LOCKSTEP}),
    "width 3": (simulated.GROUPS, {Name.GROUPS, Name.BATCHED}),
    "width 4": (replace(simulated.GROUPS, width=4), {Name.GROUPS, Name.BATCHED}),
    "width 3 in lockstep": (replace(simulated.GROUPS, shared=0.0), {Name.GROUPS, Name.LOCKSTEP}),
    "static": (simulated.STATIC, {Name.STATIC, Name.WINDOW, Name.BATCHED}),
    "window": (simulated.WINDOW, {Name.WINDOW, Name.BATCHED}),
    "takes what waits": (replace(simulated.WINDOW, window=0.0), {Name.WINDOW}),
    "one chunk": (simulated.ONE_CHUNK, {Name.BATCHED}),
    "serial, one chunk": (simulated.SERIAL_ONE_CHUNK, {Name.QUEUE}),
    "costly rows": (replace(simulated.CONSTANT, shared=0.7), {Name.BATCHED}),
    "jittery": (replace(simulated.CONSTANT, noise=0.4, network=0.03), {Name.BATCHED}),
    "jittery serial": (replace(simulated.SERIAL, noise=0.4, network=0.03), {Name.QUEUE}),
}
"""Behaviour, and every finding it must lead to."""


@pytest.mark.parametrize(("behaviour", "names"), KNOWN.values(), ids=KNOWN)
def test_the_verdict_is_right(behaviour: Behaviour, names: set[Name]) -> None:
    expected = min(names, key=list(Name).index)
    told = [examined(behaviour, seed).verdict for seed in range(SEEDS)]
    assert Counter(v.name for v in told)[expected] >= RIGHT
    assert sum(all(v.says(name) for name in names) for v in told) >= RIGHT


@pytest.mark.parametrize("breaks", Break)
def test_requests_that_fail_do_not_change_what_the_others_show(breaks: Break) -> None:
    flaky = replace(simulated.CONSTANT, flaky=0.08, breaks=breaks)
    found = [examined(flaky, seed, replace(PLAN, repeat=3, probes=())) for seed in range(SEEDS)]
    assert Counter(f.verdict.name for f in found)[Name.BATCHED] >= RIGHT
    assert sum(f.failed for f in found) > SEEDS
    assert {failure for f in found for failure in f.failures} == {breaks}


@pytest.mark.parametrize("breaks", Break)
def test_a_server_that_only_fails_is_asked_twice_and_judged_not_at_all(breaks: Break) -> None:
    for seed in range(SEEDS):
        found = examined(replace(simulated.CONSTANT, flaky=1.0, breaks=breaks), seed)
        assert (found.usable, found.failed) == (0, 1 + 2)
        assert found.verdict.name is Name.INCONCLUSIVE


def test_the_width_of_groups_is_the_servers() -> None:
    for width in (2, 3, 4):
        verdict = examined(replace(simulated.GROUPS, width=width), seed=1).verdict
        assert verdict.main.width == width


def test_all_probes_tell_what_a_good_server_does() -> None:
    found = examined(simulated.CONSTANT, 1, Plan((1, 4), tokens=64, repeat=2))
    told = {probe.kind: probe for probe in found.probes}
    assert set(told) == set(Kind) - {Kind.SWEEP}
    assert "it joined" in told[Kind.STAGGERED].sentence
    assert told[Kind.MIXED].finding is not None
    assert told[Kind.MIXED].finding.name is Name.BATCHED
    assert "each came when they were done" in told[Kind.RELEASE].sentence
    assert "no prefix is reused" in told[Kind.PREFIX].sentence


def test_a_prompt_that_holds_up_running_streams_is_measured() -> None:
    slow_reader = replace(simulated.CONSTANT, prompt=1.0, noise=0.0)
    found = examined(slow_reader, 1, Plan((1,), tokens=64, repeat=1, probes=(Kind.JOIN,)))
    (probe,) = found.probes
    assert "paused for at most 1.02 s" in probe.sentence
    assert "usually 0.020 s" in probe.sentence
