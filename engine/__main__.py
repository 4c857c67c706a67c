"""The engine as a process: `python -m engine --model M --max-batch N --socket PATH`."""

from __future__ import annotations

import argparse
import sys

from engine.server.options import ServeOptions, add_arguments
from engine.server.process import run
from engine.server.report import LineReporter


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine", description="Serve one model to many clients in one batch."
    )
    add_arguments(parser)
    parser.add_argument(
        "--parent-pipe", action="store_true", help="exit when standard input closes"
    )
    return run(ServeOptions.of(parser.parse_args()), LineReporter("engine"))


if __name__ == "__main__":
    sys.exit(main())
