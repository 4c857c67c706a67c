"""Which notices stay when more come."""

from __future__ import annotations

import time

from textual.notifications import Notification

from dspark_tui.notices import MOST, PASSING, Notices


def shown(notices: Notices) -> list[str]:
    return [notice.message for notice in notices]


def test_one_that_says_the_same_takes_the_place_of_its_earlier_self() -> None:
    notices = Notices()
    for message in ("nothing to stop here", "voted", "nothing to stop here"):
        notices.add(Notification(message))
    assert shown(notices) == ["voted", "nothing to stop here"]


def test_there_are_never_more_than_a_few_and_warnings_outlast_what_is_said_in_passing() -> None:
    notices = Notices()
    notices.add(Notification("the disk is full", severity="warning"))
    for number in range(9):
        notices.add(Notification(f"layout {number}"))
        assert len(notices) <= MOST
    assert shown(notices) == ["the disk is full", "layout 7", "layout 8"]
    for number in range(MOST):
        notices.add(Notification(f"problem {number}", severity="error"))
    assert shown(notices) == ["problem 0", "problem 1", "problem 2"]


def test_one_in_passing_leaves_sooner_when_another_comes() -> None:
    now = time.time()
    first = Notification("first", timeout=1000.0, raised_at=now - 10.0)
    warning = Notification("warning", severity="warning", timeout=1000.0, raised_at=now)
    last = Notification("last", timeout=1000.0, raised_at=now)
    notices = Notices()
    for notice in (first, warning, last):
        notices.add(notice)
    assert first.raised_at + first.timeout == now + PASSING
    assert warning.timeout == last.timeout == 1000.0
