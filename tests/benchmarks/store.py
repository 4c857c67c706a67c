"""A database of 1,000 sessions and 200,000 messages: first paint, search, deletion.

It is written once, which takes minutes, and kept with the other data of tests.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dspark_tui.storage.rows import PaneRow, Row, TurnRow, WorkspaceRow
from dspark_tui.storage.store import Store
from tests.benchmarks.startup import first_paint, until_shown
from tests.conftest import TEST_DATA

SESSIONS = int(os.environ.get("BENCH_SESSIONS", "1000"))
TURNS = 100
"""In each session; a turn is two messages."""

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
WORDS = 4000
RARE = "quizzaciously"


def filled(path: Path) -> None:
    """Write it: a vocabulary with a long tail, answers of 30 to 90 words."""
    draw = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgk"
    vocabulary = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(WORDS)]
    weights = [1 / (rank + 1) for rank in range(WORDS)]
    store = Store.open(path)
    for session in range(1, SESSIONS + 1):
        store.save(rows(session, lambda n: " ".join(draw.choices(vocabulary, weights, k=n)), draw))
    store.close()


def rows(session: int, text: Callable[[int], str], draw: random.Random) -> list[Row]:
    first = session * TURNS
    found: list[Row] = [
        WorkspaceRow(session, f"session {session}", float(session), "{}"),
        PaneRow(session, session, 1, "{}", first + TURNS - 1),
    ]
    for turn in range(first, first + TURNS):
        answer = text(draw.randint(30, 90))
        if turn % (TURNS * 100) == 50:
            answer += f" {RARE}"
        parent = turn - 1 if turn > first else None
        found.append(TurnRow(turn, session, parent, text(12), answer, "done", "", "", None, True))
    return found


def timed(name: str, work: Callable[[], object]) -> None:
    start = time.perf_counter()
    result = work()
    took = 1000 * (time.perf_counter() - start)
    size = f"{len(result)} found" if isinstance(result, list) else ""
    print(f"| {name} | {took:.1f} ms | {size} |")


def main() -> None:
    kept = TEST_DATA / "benchmarks" / f"sessions-{SESSIONS}.db"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        filled(draft)
        draft.rename(kept)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        path = home / "data" / "dspark-tui" / "sessions.db"
        path.parent.mkdir(parents=True)
        shutil.copy(kept, path)
        size = path.stat().st_size / 1e6
        print(f"{SESSIONS} sessions, {2 * SESSIONS * TURNS} messages, {size:.0f} MB\n")
        print("| what | time | |\n|---|---|---|")
        for _ in range(ROUNDS):
            first, empty = until_shown("to 1", home), first_paint(1)
            print(f"| first paint | {first:.2f} s | {empty:.2f} s without any session |")
        measure(path)


def measure(path: Path) -> None:
    store = Store.open(path)
    timed("open and load the latest", lambda: store.load(store.latest() or 0))
    timed("list all sessions", store.listed)
    timed("earlier prompts", store.prompts)
    for text in (RARE, "the", "e", "zq", "ta oin", "no such words at all"):
        timed(f"search {text!r}", partial(store.search, text))
    timed("delete a session", lambda: store.delete_workspace(3))
    timed("begin to tidy the index after it", lambda: store.tidy(first=True))
    timed("one step more", lambda: store.tidy(first=False))
    store.close()


if __name__ == "__main__":
    main()
