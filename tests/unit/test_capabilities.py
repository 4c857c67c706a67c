"""One statement for each feature, in one order, and refusals that read as such."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dspark_tui.commands.serve import ConsoleReporter
from engine.events import Capability, EngineStatus, Snapshot, decode, encode
from engine.models.capabilities import Feature, complete, stated
from engine.server.report import LineReporter

REFUSED = stated(Feature.QUANTIZED_KV, "4-bit", "off", "heads of [16]", refused=True)


def ready(*statements: Capability) -> Snapshot:
    return Snapshot(0.0, 0.0, EngineStatus.OK, 4, 8, capabilities=complete(statements))


def test_every_feature_is_stated_once_the_last_word_counting() -> None:
    first = stated(Feature.PRECISION, "auto", "fp32", "it fits")
    last = stated(Feature.PRECISION, "fp16", "fp16", "asked for")
    everything = complete([REFUSED, first, last])
    assert [c.feature for c in everything] == list(Feature)
    by_feature = {c.feature: c for c in everything}
    assert by_feature["precision"] is last
    assert by_feature["quantized KV"] is REFUSED
    assert by_feature["distributed"].effective == "off"
    assert [c for c in everything if c.refused] == [REFUSED]


def test_a_refusal_survives_the_wire_and_reads_as_one() -> None:
    assert decode(encode(REFUSED)) == REFUSED
    assert str(REFUSED) == "quantized KV: asked for 4-bit, got off (heads of [16])"
    assert str(stated(Feature.BLAS, "auto", "OpenBLAS", "why")) == "blas: OpenBLAS (why)"


def test_a_worker_says_each_refusal_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LineReporter("engine").ready("http://x", ready(REFUSED))
    first, warning = capsys.readouterr().err.splitlines()
    assert "4 slots" in first
    assert "quantized KV" not in first
    assert warning == f"engine: WARNING: {REFUSED}"


def test_serve_lists_all_features_and_marks_the_refused() -> None:
    out = io.StringIO()
    ConsoleReporter(Console(file=out, width=100)).ready("http://x", ready(REFUSED))
    lines = out.getvalue().splitlines()
    assert all(any(line.startswith(feature) for line in lines) for feature in Feature)
    (marked,) = [line for line in lines if "WARNING" in line]
    assert "asked for 4-bit, got off: heads of [16]" in marked
