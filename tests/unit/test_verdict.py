"""What burst times are called, by hand-made times whose answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.proof.shape import Shape, Solo, Timing, spread
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

TOKENS = 64
SOLO = Solo(ttft=0.1, seconds=2.0, tokens=TOKENS)


def one(first: float, end: float, tokens: int = TOKENS, submit: float = 0.0) -> Timing:
    return Timing(submit, first, end, tokens)


def staircase(ends: Sequence[float], tokens: int = TOKENS) -> list[Timing]:
    """Each begins when the one before ends."""
    starts = [0.0, *ends]
    return [one(start + 0.05, end, tokens) for start, end in zip(starts, ends, strict=False)]


def cluster(count: int, end: float, tokens: int = TOKENS) -> list[Timing]:
    return [one(0.1 + 0.01 * n, end + 0.01 * n, tokens) for n in range(count)]


def verdict(name: Name) -> Verdict:
    return Verdict((Finding(name, f"it is {name}"),))


def test_spread_is_zero_for_a_cluster_and_one_for_an_even_staircase() -> None:
    assert spread([4.9, 4.9, 4.9, 4.9]) == 0.0
    assert spread([1.0, 2.0, 3.0, 4.0]) == pytest.approx(1.0)
    assert spread([3, 6, 9, 13]) == pytest.approx(1.03, abs=0.01)
    assert spread([5.5, 11.1, 16.8, 22.5]) == pytest.approx(1.01, abs=0.01)
    assert spread([2.0]) == 0.0


def test_the_staircase_that_started_this_is_a_queue() -> None:
    found = judge_burst(staircase([5.5, 11.1, 16.8, 22.5]), Solo(0.2, 5.5, TOKENS))
    assert found.name is Name.QUEUE
    assert found.shape is not None
    assert found.shape.waves == (1, 1, 1, 1)
    assert found.shape.overlap < 0.05
    assert found.shape.gain == pytest.approx(0.98, abs=0.01)
    assert "as long as 4.1 requests alone" in found.main.sentence


def test_a_queue_needs_no_baseline() -> None:
    assert judge_burst(staircase([1, 2, 3, 4])).name is Name.QUEUE


@pytest.mark.parametrize(
    ("end", "name"), [(2.0, Name.BATCHED), (5.9, Name.BATCHED), (6.3, Name.LOCKSTEP)]
)
def test_a_cluster_is_batched_only_if_something_was_gained(end: float, name: Name) -> None:
    """Four requests gain 1.3 when they end after 8 / 1.3 = 6.15 s."""
    found = judge_burst(cluster(4, end), SOLO)
    assert found.name is name
    assert found.shape is not None
    assert found.shape.overlap > 0.9


def test_a_cluster_without_a_baseline_says_what_is_missing() -> None:
    found = judge_burst(cluster(4, 2.0))
    assert found.name is Name.INCONCLUSIVE
    assert "no baseline" in found.main.sentence
    assert found.shape is not None
    assert found.shape.gain is None


def test_groups_name_their_width_and_judge_what_happens_within() -> None:
    waves = [one(2.0 * wave + 0.1, 2.0 * wave + 2.0) for wave in range(2) for _ in range(4)]
    found = judge_burst(waves, SOLO, slots=4)
    assert [finding.name for finding in found.findings] == [Name.GROUPS, Name.BATCHED]
    assert found.main.width == 4
    assert "4+4" in found.main.sentence
    assert "slots: 4" in found.main.sentence
    slow = [one(8.0 * wave + 0.1, 8.0 * wave + 8.0) for wave in range(2) for _ in range(4)]
    assert judge_burst(slow, SOLO).says(Name.LOCKSTEP)


def test_a_last_group_may_be_smaller() -> None:
    found = judge_burst([one(0.1, 2.0), one(0.1, 2.0), one(2.1, 4.0)], SOLO)
    assert found.name is Name.GROUPS
    assert found.main.width == 2


def test_the_first_alone_and_then_all_others_is_a_window() -> None:
    """What a server does that batches whatever waits when it is done."""
    found = judge_burst([one(0.1, 2.0), *(one(2.2, 4.2) for _ in range(7))], SOLO)
    assert found.name is Name.WINDOW
    assert "1+7" in found.main.sentence


@pytest.mark.parametrize(
    "ends",
    [
        [9.3, 13.7, 14.4, 14.4],  # joins late, all overlap
        [2.0, 3.0, 4.0, 5.0],
    ],
)
def test_between_cluster_and_staircase_is_mixed(ends: list[float]) -> None:
    found = judge_burst([one(0.5, end) for end in ends], Solo(0.1, 4.0, TOKENS))
    assert found.name is Name.MIXED


def test_a_ramp_of_overlapping_requests_is_no_group() -> None:
    """Prompts read one by one while the others decode: spans overlap, ends drift apart."""
    ramp = [one(0.6 * n + 0.6, 0.6 * n + 1.9) for n in range(8)]
    assert judge_burst(ramp, SOLO).name is Name.MIXED


def test_text_that_comes_in_one_piece_is_judged_by_its_ends() -> None:
    at_once = [one(end, end) for end in (2.0, 2.01, 2.02, 2.03)]
    assert judge_burst(at_once, SOLO).name is Name.BATCHED
    one_by_one = [one(end, end) for end in (2.0, 4.0, 6.0, 8.0)]
    assert judge_burst(one_by_one, SOLO).name is Name.QUEUE
    assert judge_burst(one_by_one).name is Name.QUEUE
    in_pairs = [one(end, end) for end in (2.0, 2.0, 4.1, 4.1)]
    assert judge_burst(in_pairs, SOLO).name is Name.GROUPS


def test_early_stops_do_not_bend_a_cluster() -> None:
    """Unequal lengths at one pace: the first tokens of each are what is compared."""
    unequal = [one(0.1, 0.1 + 0.03 * (tokens - 1), tokens) for tokens in (40, 64, 90, 128)]
    found = judge_burst(unequal, SOLO)
    assert found.name is Name.BATCHED
    assert found.shape is not None
    assert found.shape.tokens == 40
    assert found.shape.spread == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("timings", "solo", "words"),
    [
        ([], SOLO, "at least two"),
        ([one(0.1, 2.0)], SOLO, "at least two"),
        (cluster(4, 2.0, tokens=31), SOLO, "31 tokens is too short"),
        (cluster(4, 2.0), Solo(0.1, 2.0, TOKENS, jitter=0.7), "vary by 0.70 s"),
        (cluster(4, 0.02), Solo(0.001, 0.012, TOKENS), "more tokens"),
    ],
)
def test_too_little_evidence_says_what_to_do(timings: list[Timing], solo: Solo, words: str) -> None:
    found = judge_burst(timings, solo)
    assert found.name is Name.INCONCLUSIVE
    assert words in found.main.sentence


@given(
    burst=st.lists(
        st.tuples(st.floats(0.05, 5.0), st.floats(0.1, 20.0), st.integers(32, 300)),
        min_size=2,
        max_size=9,
    ),
    scale=st.sampled_from([2.0, 8.0, 1024.0]),
    shuffle=st.randoms(),
)
def test_the_verdict_does_not_depend_on_the_unit_of_time_nor_on_the_order(
    burst: list[tuple[float, float, int]], scale: float, shuffle: Random
) -> None:
    plain = [Timing(0.0, first, first + span, tokens) for first, span, tokens in burst]
    other = [Timing(0.0, scale * t.first, scale * t.end, t.tokens) for t in plain]
    shuffle.shuffle(other)
    slower = Solo(SOLO.ttft * scale, SOLO.seconds * scale, SOLO.tokens)
    before, after = judge_burst(plain, SOLO), judge_burst(other, slower)
    assert [f.name for f in before.findings] == [f.name for f in after.findings]


def test_two_requests_are_called_weak_evidence() -> None:
    assert "weak evidence" in judge_burst(cluster(2, 2.0), SOLO).main.sentence
    assert "weak evidence" not in judge_burst(cluster(3, 2.0), SOLO).main.sentence


def test_aggregate_is_all_tokens_over_first_submit_to_last_end() -> None:
    late = [Timing(10.0, 10.5, 14.0, 40), Timing(10.2, 10.7, 15.0, 60)]
    assert Shape.of(late).aggregate == pytest.approx(100 / 5.0)


def test_gain_is_the_aggregate_over_the_solo_rate_and_a_long_tail_does_not_hide_it() -> None:
    equal = cluster(4, 2.5)
    shape = Shape.of(equal, SOLO)
    assert shape.gain == pytest.approx(shape.aggregate / SOLO.rate)
    tail = [*cluster(3, 2.5), one(0.1, 20.0, tokens=8 * TOKENS)]
    assert judge_burst(tail, SOLO).name is Name.BATCHED


def test_the_baseline_is_the_middle_run_and_its_jitter_the_distance_of_the_others() -> None:
    solo = Solo.of([one(0.1, 2.0), one(0.3, 2.6), one(0.2, 2.1)])
    assert (solo.ttft, solo.seconds) == (0.2, 2.1)
    assert solo.jitter == pytest.approx(0.6)
    assert solo.rate == pytest.approx(TOKENS / 2.1)
    assert solo.seconds_for(1) == pytest.approx(0.2)
    assert solo.seconds_for(TOKENS) == pytest.approx(2.1)


def test_a_newcomer_that_waits_for_the_other_to_end_is_shut_out() -> None:
    running = one(0.1, 2.0)
    assert judge_joining(running, one(0.6, 0.9, 16, submit=0.5), SOLO) is None
    shut = judge_joining(running, one(2.1, 2.6, 16, submit=0.5), SOLO)
    assert shut is not None
    assert shut.name is Name.WINDOW
    assert "1.6 s" in shut.sentence
    unclear = judge_joining(running, one(1.8, 2.3, 16, submit=0.5), SOLO)
    assert unclear is not None
    assert unclear.name is Name.INCONCLUSIVE
    too_late = judge_joining(running, one(2.0, 2.3, 16, submit=1.9), SOLO)
    assert too_late is not None
    assert too_late.name is Name.INCONCLUSIVE


def test_unequal_answers_that_end_together_were_held() -> None:
    lengths = (16, 32, 48, 64)
    held = judge_release([one(2.0, 2.0, length) for length in lengths], SOLO)
    assert held is not None
    assert held.name is Name.STATIC
    let_go = [one(end, end, n) for end, n in zip((0.6, 1.1, 1.6, 2.0), lengths, strict=True)]
    assert judge_release(let_go, SOLO) is None
    alike = judge_release([one(2.0, 2.0, length) for length in (64, 64)], SOLO)
    assert alike is not None
    assert alike.name is Name.INCONCLUSIVE
    assert judge_release([one(1.0, 1.0, 16)], SOLO) is None


def test_the_widest_burst_that_tells_anything_decides_and_probes_add_to_it() -> None:
    window = Finding(Name.WINDOW, "nobody can join")
    static = Finding(Name.STATIC, "held back")
    judged = overall([verdict(Name.MIXED), verdict(Name.BATCHED)], [window, static])
    assert [f.name for f in judged.findings] == [Name.BATCHED, Name.WINDOW, Name.STATIC]
    assert judged.name is Name.STATIC
    assert overall([verdict(Name.BATCHED), verdict(Name.INCONCLUSIVE)]).name is Name.BATCHED
    assert overall([verdict(Name.QUEUE)], [window]).findings == verdict(Name.QUEUE).findings
    assert overall([]).name is Name.INCONCLUSIVE


def test_repeats_speak_with_their_majority_or_not_at_all() -> None:
    batched, groups = verdict(Name.BATCHED), verdict(Name.GROUPS)
    assert combined([batched, groups, batched]).name is Name.BATCHED
    split = combined([batched, groups])
    assert split.name is Name.MIXED
    assert "batched, groups" in split.main.sentence
