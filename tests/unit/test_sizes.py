"""Bytes in words: three digits, and never a thousand of a unit."""

from __future__ import annotations

import pytest

from engine.sizes import readable


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (92_871_040, "92.9 MB"),
        (999_499_999, "999 MB"),
        (999_600_000, "1 GB"),
        (1_536_000_000_000, "1.54 TB"),
    ],
)
def test_sizes_are_read_at_a_glance(count: int, words: str) -> None:
    assert readable(count) == words
