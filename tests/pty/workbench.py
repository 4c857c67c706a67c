"""The workbench as a program, its worker replaced by the scripted engine.

python -m tests.pty.workbench [--engine "--rate 30 --slots 2"] [the workbench's own options]
"""

from __future__ import annotations

import argparse
import shlex
import sys

from dspark_tui import cli, clipboard, themed
from dspark_tui.engines import worker


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--engine", default="")
    args, rest = parser.parse_known_args()
    scripted = [sys.executable, "-m", "tests.tui.scripted_engine", "--parent-pipe"]
    scripted += shlex.split(args.engine)
    clipboard.TIMEOUT = themed.KEY_PATIENCE = 60.0  # as patient as the tests are
    worker.engine_command = lambda *_: lambda socket: [*scripted, "--socket", str(socket)]
    return cli.main(rest)


if __name__ == "__main__":
    sys.exit(main())
