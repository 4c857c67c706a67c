"""Flips: the comparison, and the whole test against servers with known near ties."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dspark_tui.commands.bench_flips import flip_rows
from engine.proof.endpoint import UnusableServerError
from engine.proof.flips import Choice, FlipReport, FlipTest, WidthFlips, compare
from engine.proof.traffic import Ask


class NearTies:
    """Writes a b c d; at `tie` the runner-up wins whenever others are answered at the same time."""

    def __init__(self, tie: int | None) -> None:
        self._tie = tie
        self._running = 0
        self.widest = 0

    async def document(self, ask: Ask, options: dict[str, Any]) -> Any:
        assert not ask.stream
        assert ask.temperature == 0
        assert options == {"logprobs": True, "top_logprobs": 2}
        self._running += 1
        self.widest = max(self.widest, self._running)
        await asyncio.sleep(0)
        crowded = self.widest > 1
        self._running -= 1
        entries = [self._entry(place, crowded) for place in range(ask.max_tokens)]
        return {"choices": [{"logprobs": {"content": entries}}]}

    def _entry(self, place: int, crowded: bool) -> dict[str, Any]:
        token, other, margin = chr(ord("a") + place), "?", 2.0
        if place == self._tie:
            margin = 0.01
            token, other = (other, token) if crowded else (token, other)
        top = [{"token": token, "logprob": -0.5}, {"token": other, "logprob": -0.5 - margin}]
        return {"token": token, "logprob": -0.5, "top_logprobs": top}


def run(server: Any, widths: tuple[int, ...], repeat: int = 1) -> tuple[FlipTest, list[WidthFlips]]:
    test = FlipTest(server, widths, 4, repeat, lambda _: None)
    return test, asyncio.run(test.run())


def choices(text: str) -> list[Choice]:
    return [Choice(token, 1.0) for token in text]


@pytest.mark.parametrize(
    ("alone", "together", "compared", "position"),
    [
        ("abcd", "abcd", 4, None),
        ("abcd", "abxd", 3, 2),
        ("abcd", "ab", 2, None),
        ("", "a", 0, None),
    ],
)
def test_answers_are_compared_up_to_their_first_difference(
    alone: str, together: str, compared: int, position: int | None
) -> None:
    tokens, flip = compare(choices(alone), choices(together))
    assert tokens == compared
    assert (flip and flip.position) == position


def test_a_server_without_near_ties_has_no_flips() -> None:
    test, (two, four) = run(NearTies(None), (1, 2, 4), repeat=2)
    assert (two.n, two.answers, two.tokens, two.flips) == (2, 8, 32, [])
    assert (four.n, four.answers, four.tokens, four.flips) == (4, 8, 32, [])
    assert test.closest == pytest.approx(2.0)


def test_a_server_that_answers_nothing_has_nothing_to_compare() -> None:
    class Silent(NearTies):
        async def document(self, ask: Ask, options: dict[str, Any]) -> Any:
            return {"choices": [{"logprobs": {"content": []}}]}

    with pytest.raises(UnusableServerError, match="nothing to compare"):
        run(Silent(None), (1, 2))


def test_a_flip_is_told_with_its_place_and_its_margin_alone() -> None:
    server = NearTies(1)
    test, (result,) = run(server, (1, 3))
    assert server.widest == 3
    assert result.tokens == 3 * 2
    assert len(result.flips) == 3
    flip = result.flips[0]
    assert (flip.position, flip.alone, flip.batched) == (1, "b", "?")
    assert flip.margin == pytest.approx(0.01)
    assert result.per_thousand == 500.0
    assert test.closest == pytest.approx(0.01)


@pytest.mark.parametrize(
    "document",
    [
        {"choices": [{"message": {"content": "a"}}]},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"content": [{"token": "a", "top_logprobs": []}]}}]},
        {"choices": []},
        [],
    ],
)
def test_a_server_without_log_probabilities_is_told_in_a_line(document: Any) -> None:
    class Mute:
        async def document(self, ask: Ask, options: dict[str, Any]) -> Any:
            return document

    with pytest.raises(UnusableServerError, match="top_logprobs"):
        run(Mute(), (1, 2))


def test_the_report_names_each_flip() -> None:
    test, widths = run(NearTies(1), (1, 3))
    report = FlipReport(
        command="dspark-tui bench --flips",
        tool="dspark-tui",
        machine="here",
        server="http://x",
        model="[b]m[/b]",
        tokens_each=4,
        closest=test.closest,
        widths=widths,
    )
    assert FlipReport.model_validate_json(report.model_dump_json()) == report
    text = "\n".join(str(row) for row in flip_rows(report))
    assert "[b]m[/b]" in text
    assert "N=3, token 2: 'b' alone, '?' in the batch, 0.0100 nats apart" in text
