"""What a decode step must read and compute, checked against figures worked out by hand."""

from __future__ import annotations

import pytest

from engine.hardware.roofline import (
    BandwidthPoint,
    Ceiling,
    Machine,
    Measured,
    Reading,
    Roofline,
    Tensor,
    distinct_experts,
)

GB = 1e9


def machine(*bandwidths: float, multiplications: float = 1e15) -> Machine:
    """Working sets of 1, 2, 3, … GB with these bandwidths in GB/s."""
    points = (
        BandwidthPoint(round(size * GB), rate * GB / 2, rate * GB, 2)
        for size, rate in enumerate(bandwidths, 1)
    )
    return Machine(tuple(points), multiplications)


def model(size: float, bandwidth: float) -> Roofline:
    """A model of so many GB on a machine of so many GB/s."""
    weights = Tensor("w", (1,), "uint32", round(size * GB))
    return Roofline([weights], 0, machine(bandwidth))


def test_a_rate_and_its_bytes_give_the_bandwidth_in_use() -> None:
    measured = Measured(model(1.849, 300).ceiling(1, 0), rate=97.83)
    assert measured.bandwidth / GB == pytest.approx(181, abs=0.5)
    assert measured.seconds == pytest.approx(1 / 97.83)


@pytest.mark.parametrize(("available", "share"), [(265, 0.68), (315, 0.57)])
def test_utilisation_is_that_bandwidth_s_share(available: float, share: float) -> None:
    measured = Measured(model(1.849, available).ceiling(1, 0), rate=97.83)
    assert measured.utilisation == pytest.approx(share, abs=0.005)


def test_fewer_bytes_and_more_bandwidth_in_use_multiply() -> None:
    before, after = model(2.80, 116).ceiling(1, 0), model(1.849, 181).ceiling(1, 0)
    assert after.rate / before.rate == pytest.approx(2.36, abs=0.005)


def test_weights_are_read_once_however_many_rows_share_the_step() -> None:
    roofline = model(2, 100)
    assert roofline.step_bytes(1, 0) == roofline.step_bytes(8, 0) == 2 * GB
    assert roofline.ceiling(8, 0).rate == pytest.approx(8 * roofline.ceiling(1, 0).rate)


def test_each_row_reads_its_own_keys_and_values() -> None:
    roofline = Roofline([Tensor("w", (1,), "float32", 1000)], 10, machine(1))
    assert roofline.step_bytes(3, 50) == 1000 + 3 * 50 * 10


def test_an_embedding_s_lookup_reads_a_row_for_each_token() -> None:
    lookup = Tensor("e", (100, 8), "float32", 3200, Reading.ROW, entries=100)
    assert lookup.bytes_read(1) == 32
    assert lookup.bytes_read(4) == 128
    assert lookup.bytes_read(1000) == 3200


def test_experts_are_read_as_far_as_the_batch_is_expected_to_need_them() -> None:
    assert distinct_experts(128, 8, 1) == pytest.approx(8)
    assert distinct_experts(128, 8, 8) == pytest.approx(128 * (1 - (120 / 128) ** 8))
    assert distinct_experts(128, 8, 10_000) == pytest.approx(128)
    assert distinct_experts(4, 4, 1) == 4
    experts = Tensor("x", (8, 4, 4), "float32", 512, Reading.EXPERTS, entries=8, chosen=2)
    assert experts.bytes_read(1) == pytest.approx(128)
    assert experts.bytes_read(2) == pytest.approx(512 * (1 - 0.75**2))


def test_what_the_routing_was_seen_to_need_is_taken_instead() -> None:
    experts = Tensor("x", (8, 4, 4), "float32", 512, Reading.EXPERTS, entries=8, chosen=2)
    dense = Tensor("w", (1,), "float32", 100)
    roofline = Roofline([experts, dense], 0, machine(1), {2: 0.25})
    assert roofline.step_bytes(1, 0) == pytest.approx(100 + 128)
    assert roofline.step_bytes(2, 0) == 100 + 128
    assert roofline.step_bytes(4, 0) == pytest.approx(100 + 512 * (1 - 0.75**4))


def test_the_slower_of_memory_and_arithmetic_is_the_limit() -> None:
    tensor = Tensor("w", (1,), "float32", round(GB), weights=10**9)
    roofline = Roofline([tensor], 0, machine(10, multiplications=40e9))
    narrow, wide = roofline.ceiling(1, 0), roofline.ceiling(8, 0)
    assert (narrow.limit, narrow.seconds) == ("memory", pytest.approx(0.1))
    assert (wide.limit, wide.seconds) == ("arithmetic", pytest.approx(0.2))
    assert wide.rate == pytest.approx(40)


def test_only_the_chosen_experts_multiply() -> None:
    experts = Tensor("x", (8, 1), "float32", 32, Reading.EXPERTS, 8, chosen=2, weights=100)
    dense = Tensor("w", (1,), "float32", 4, weights=30)
    assert Roofline([experts, dense], 0, machine(1)).weights_per_token == 230


def test_bandwidth_is_that_of_the_working_set_or_a_larger_one_that_did_better() -> None:
    found = machine(40, 20, 30, 10)
    assert found.at(0.5 * GB).best == 40 * GB
    assert found.at(1.5 * GB).best == 30 * GB
    assert found.at(3.5 * GB).best == 10 * GB
    assert found.at(99 * GB).best == 10 * GB


def test_a_ceiling_counts_the_tokens_of_all_rows() -> None:
    assert Ceiling(4, 100.0, 0.5, 0.1).rate == 8
