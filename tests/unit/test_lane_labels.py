"""What an experiment's lanes are called: short, and no two requests alike."""

from __future__ import annotations

from itertools import product

import pytest
from rich.cells import cell_len

from dspark_tui.experiments.lane_labels import ROOM, lane_labels

LONG = "Translate this into French: "


def test_what_is_the_same_everywhere_is_left_out_and_the_quickest_stands_first() -> None:
    labels = list(lane_labels(["only"], ["Austria", "Chile"], ["cold", "hot"]))
    assert labels == ["cold/Austria", "hot/Austria", "cold/Chile", "hot/Chile"]


def test_a_common_beginning_is_left_out_by_words_and_what_else_is_alike_is_numbered() -> None:
    prompts = ["capital question", "capital quiz"]
    inputs = ["Chad, kind", "Chad, stern", "Peru, kind"]
    labels = list(lane_labels(prompts, inputs, ["cold", "hot"]))
    assert (labels[0], labels[-1]) == ("cold/1 Ch/ques", "hot/3 Pe/quiz")


def test_nothing_that_differs_is_no_label() -> None:
    assert list(lane_labels(["one"], [""], ["default"])) == [""]
    assert list(lane_labels(["one"], ["same", "same"], ["default"])) == ["", ""]


@pytest.mark.parametrize(
    "aspects",
    [
        (["prompt 1", "prompt 2"], ["Austria", "Chile", "Chad"], ["cold", "hot"]),
        (["terse", "friendly"], ["a", "b"], ["T0 max 40", "T0.7 max 40"]),
        (["p"], [f"{LONG}dog", f"{LONG}cat"], ["cold", "hot"]),
        (["p"], [LONG, f"{LONG}cat", "what else there is to ask", "what else"], ["T0", "T1"]),
        (["p"], ["犬が好きですか", "猫が好きですか"], ["cold and long", "hot and long"]),
        (["two\nlines", "two\twords"], [str(n) for n in range(120)], ["a" * 30, "a" * 31]),
    ],
)
def test_no_two_requests_have_the_same_label_and_all_fit(aspects: tuple[list[str], ...]) -> None:
    labels = list(lane_labels(*aspects))
    assert len(labels) == len(list(product(*aspects)))
    assert len(set(labels)) == len(labels)
    assert max(map(cell_len, labels)) <= ROOM
    assert not any("\n" in label for label in labels)
