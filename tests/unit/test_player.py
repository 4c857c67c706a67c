"""Playing a recording: wherever one goes, the state is what a viewer saw at that time."""

from __future__ import annotations

import pytest

from dspark_tui.appearance.glyphs import DEFAULT
from dspark_tui.batch import player as module
from dspark_tui.batch.layout import layout
from dspark_tui.batch.live import LiveState
from dspark_tui.batch.player import FASTEST, SLOWEST, Player
from tests.tui.burst import START, burst

LENGTH = 14.5


def seen(state: LiveState, now: float) -> list[str]:
    rows = layout(state, now, 196, 20, DEFAULT)
    return ["".join(part.text for part in row) for row in rows]


def folded_until(time: float) -> list[str]:
    state = LiveState()
    for event in burst():
        if event.time <= time:
            state.apply(event)
    return seen(state, time)


@pytest.fixture(params=[4000, 7])
def player(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Player:
    """With all events since the last checkpoint, and with many checkpoints."""
    monkeypatch.setattr(module, "CHECKPOINT_EVENTS", request.param)
    return Player(burst())


def test_it_begins_with_the_recording(player: Player) -> None:
    assert (player.now, player.start) == (START, START)
    assert player.length == pytest.approx(LENGTH)
    assert player.playing


def test_any_order_of_seeks_shows_what_was_seen_then(player: Player) -> None:
    for second in (14.5, 0.0, 5.5, 5.4, 9.0, 3.2, 14.0, 13.9, 0.1, 14.5):
        player.seek(START + second)
        assert seen(player.state, player.now) == folded_until(START + second)


def test_seeks_end_at_the_recording_s_ends(player: Player) -> None:
    player.seek(START + 99)
    assert player.at_end
    player.seek(START - 99)
    assert player.now == START


def test_time_passes_at_the_speed_and_the_end_pauses(player: Player) -> None:
    player.speed = 4.0
    player.advance(0.5)
    assert player.now == pytest.approx(START + 2)
    player.toggle()
    player.advance(10)
    assert player.now == pytest.approx(START + 2)
    player.toggle()
    player.advance(10)
    assert (player.at_end, player.playing) == (True, False)
    player.toggle()
    assert (player.now, player.playing) == (START, True)


def test_the_speed_has_limits(player: Player) -> None:
    for _ in range(40):
        player.faster(2.0)
    assert player.speed == FASTEST
    for _ in range(40):
        player.faster(0.5)
    assert player.speed == SLOWEST


def test_a_clock_that_goes_back_is_played_in_the_order_recorded() -> None:
    events = burst()
    again = Player([*events, events[0]])
    again.seek(again.end)
    assert again.length == pytest.approx(LENGTH)
    assert again.state.engine.requests == {}
