"""A rank, started by rank 0: `python -m engine.distributed RANK LEADER PORT IP …`.

As rank 0 it is a stand-in.
"""

from __future__ import annotations

import argparse

from engine.distributed import follower, stand_in
from engine.server.logs import open_log


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m engine.distributed",
        description="Run one rank of a model; started by dspark-tui serve --distributed.",
    )
    parser.add_argument("rank", type=int)
    parser.add_argument("leader", help="rank 0's address")
    parser.add_argument("port", type=int)
    parser.add_argument("ips", nargs="*", help="this rank's own addresses")
    args = parser.parse_args()
    open_log(None)
    (follower if args.rank else stand_in).run(args)


if __name__ == "__main__":
    main()
