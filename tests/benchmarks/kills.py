"""`kill -9` of workbench and worker at random moments while three panes stream: what is lost."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from pathlib import Path

from tests.victim import Murder

KILLS = int(os.environ.get("BENCH_KILLS", "200"))


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        murder = Murder(Path(home), random.Random(11))
        while murder.kills < KILLS:
            murder.once(worker=murder.draw.random() < 0.5)
        text = [loss.text for loss in murder.losses]
        finished = max(loss.finished for loss in murder.losses)
        print(
            "| kills | database sound | turns unmarked | text lost, median | text lost, at worst |"
        )
        print("|---|---|---|---|---|")
        print(
            f"| {murder.kills} | yes | {murder.unmarked()} | {statistics.median(text):.2f} s "
            f"| {max(text):.2f} s |"
        )
        print(f"\nFinished turns lost: those that ended up to {finished:.2f} s before a kill.")


if __name__ == "__main__":
    main()
