"""Work that does not end is reported while it goes on, and once more when it ended."""

from __future__ import annotations

import logging
import threading

import pytest

from engine.failures import FailureLog
from engine.watchdog import Watchdog

DEADLINE = 60.0


class Reports:
    """What a watchdog said."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._grown = threading.Condition()

    def __call__(self, seconds: float) -> None:
        with self._grown:
            self.seconds.append(seconds)
            self._grown.notify_all()

    def wait(self, count: int) -> None:
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.seconds) >= count, DEADLINE)


class Hours:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_work_that_does_not_end_is_reported_again_and_again() -> None:
    reports, clock = Reports(), Hours()
    dog = Watchdog(0.02, clock, reports)
    dog.start()
    with dog.watching():
        clock.now = 7.0
        reports.wait(2)
    assert reports.seconds[:2] == [7.0, 7.0]
    assert reports.seconds[-1] == 0.0
    dog.close()


def test_nothing_is_said_of_work_that_ends_in_time_nor_of_rest() -> None:
    reports, clock = Reports(), Hours()
    dog = Watchdog(0.02, clock, reports)
    dog.start()
    for _ in range(5):
        with dog.watching():
            pass
    clock.now = 100.0
    threading.Event().wait(0.1)
    dog.close()
    assert reports.seconds == []


def test_without_a_limit_nobody_watches() -> None:
    dog = Watchdog(0, Hours(), Reports())
    dog.start()
    assert not dog._thread.is_alive()
    dog.close()


def fail(kind: type[Exception]) -> Exception:
    try:
        raise kind("it broke")
    except Exception as error:
        return error


def test_ten_thousand_failures_leave_one_traceback(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog()
    with caplog.at_level(logging.ERROR):
        for number in range(10_000):
            failures.note(f"request {number} failed", fail(ValueError))
        failures.note("request x failed", fail(KeyError))
    assert [bool(record.exc_info) for record in caplog.records].count(True) == 2
    assert len(caplog.records) < 20
    assert "8192 times" in caplog.text
