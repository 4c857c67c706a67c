"""What servers answer when asked how long a text is."""

from __future__ import annotations

from typing import Any

import pytest

from dspark_tui.engines.token_count import TokenCount


@pytest.mark.parametrize(
    ("document", "count"),
    [
        ({"count": 3, "tokens": [1, 2, 3], "max_model_len": 64}, TokenCount(3, 64)),
        ({"tokens": [1, 2]}, TokenCount(2)),
        ({"tokens": [{"id": 1, "piece": "a"}]}, TokenCount(1)),
        ({"tokens": "two"}, None),
        ({}, None),
    ],
)
def test_both_dialects_are_understood(document: dict[str, Any], count: TokenCount | None) -> None:
    assert TokenCount.of(document) == count


def test_a_text_the_model_can_t_take_says_so() -> None:
    assert str(TokenCount(1)) == "1 token"
    assert str(TokenCount(1_204, 8_192)) == "1,204 tokens"
    assert str(TokenCount(8_192, 8_192)) == "8,192 tokens: the model takes 8,192"
