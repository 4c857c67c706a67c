"""A rank: `python -m engine.distributed RANK LEADER PORT IP …`. Rank 0 starts it."""

from __future__ import annotations

import argparse

from engine.distributed.follower import run
from engine.server.logs import open_log


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m engine.distributed",
        description="Run one rank of a model; started by dspark-tui serve --distributed.",
    )
    parser.add_argument("rank", type=int)
    parser.add_argument("leader", help="rank 0's address")
    parser.add_argument("port", type=int)
    parser.add_argument("ips", nargs="+", help="this rank's own addresses")
    args = parser.parse_args()
    open_log(None)
    run(args)


if __name__ == "__main__":
    main()
