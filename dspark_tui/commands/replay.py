"""`dspark-tui replay`: a recording in the real batch panel, and every figure recomputed."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspark_tui import config, terminal
from dspark_tui.batch.figures import BurstFigures, burst_figures
from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.paths import Paths, tilde
from dspark_tui.text.counted import counted
from dspark_tui.text.foreign import drawable

if TYPE_CHECKING:
    from dspark_tui.batch.lanes import Lane
    from engine.proof.recording import Recording

FASTEST = 1024.0


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "replay",
        help="play a recording of the engine's events",
        description="Play what --record wrote in the batch panel; where the output is no terminal, "
        "print its figures.",
        epilog=in_words("replay"),
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="2 is twice as fast (default 1)"
    )
    parser.add_argument(
        "--figures", action="store_true", help="print the figures, even on a terminal"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The exit code; what was not done has its reason on stderr."""
    from engine.proof.recording import RecordingError, read

    try:
        recording = read(args.file)
    except RecordingError as error:
        print(f"dspark-tui: {error}", file=sys.stderr)
        return Exit.FAILED
    bursts = burst_figures(recording.events)
    if args.figures or not (sys.stdin.isatty() and sys.stdout.isatty()):
        for line in lines_of(recording, bursts):
            print(line)
        return Exit.DONE
    try:
        terminal.refuse_dumb("--figures prints them")
    except ValueError as error:
        print(f"dspark-tui: {error}", file=sys.stderr)
        return Exit.FAILED
    return _play(args, recording, bursts)


def _play(args: argparse.Namespace, recording: Recording, bursts: list[BurstFigures]) -> int:
    from dspark_tui.batch.player import Player
    from dspark_tui.cli import failed, start_log
    from dspark_tui.replay_app import ReplayApp

    paths = Paths.of_user()
    start_log(paths)
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    player = Player(recording.events, args.speed)
    title = f" {drawable(tilde(args.file))}   {_when(recording)}"
    loaded = config.load(paths.config)
    terminal.fit(loaded)
    app = ReplayApp(title, player, bursts, loaded.settings, paths)
    asyncio.run(app.run_async())
    return failed(app.failure, paths) if app.failure else Exit.DONE


def lines_of(recording: Recording, bursts: list[BurstFigures]) -> Iterator[str]:
    """The figures as plain text."""
    cut = "" if recording.complete else ", cut off in its last line"
    events, shown = counted(len(recording.events), "event"), counted(len(bursts), "burst")
    yield f"{_when(recording)}, {events}, {shown}{cut}"
    for number, burst in enumerate(bursts, 1):
        yield ""
        yield f"burst {number}: {burst.size}, at most {burst.widest} in one step"
        yield f"{'request':<24}{'wait':>8}{'ttft':>8}{'end':>8}{'tok':>7}{'tok/s':>8}"
        yield from (_lane_line(lane, burst) for lane in burst.lanes)
        if (total := burst.aggregate) is not None:
            yield f"aggregate {total.rate:.1f} tok/s = {total.tokens} tok / {total.seconds:.2f} s"
        if burst.verdict is not None:
            yield f"verdict {burst.verdict.name}"
            yield from (f"  {finding.sentence}" for finding in burst.verdict.findings)


def _lane_line(lane: Lane, burst: BurstFigures) -> str:
    from dspark_tui.text.wrap import cut

    name = cut(f"r{lane.number} {lane.label}", 23, "")
    waited, ttft = _number(lane.waited(burst.end), 2), _number(lane.ttft, 2)
    end = "cut off" if lane.id in burst.cut_off else _number(lane.completion_time, 2)
    tokens, rate = lane.request.tokens, _number(lane.rate, 1)
    return f"{name:<24}{waited:>8}{ttft:>8}{end:>8}{tokens:>7}{rate:>8}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _when(recording: Recording) -> str:
    when = datetime.fromtimestamp(recording.created).strftime("%Y-%m-%d %H:%M:%S")
    return f"recorded {when}"


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, at most {FASTEST:.0f}")
    return speed
