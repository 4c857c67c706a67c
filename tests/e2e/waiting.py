"""Waiting for a condition on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

DEADLINE = 60.0
"""Seconds any condition may take before a test gives up."""


def wait_until(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> Any:
    """The condition's first true value."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"still not so after {deadline:.0f} s: {what}")
        time.sleep(0.02)
    return value
