"""The command line. Imports nothing heavy: `--help` and `--version` answer at once."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from dspark_tui import config, terminal
from dspark_tui.arguments import COMMAND_LINE, apply_arguments, parse
from dspark_tui.conversation.params import PaneParams
from dspark_tui.exit_codes import Exit
from dspark_tui.paths import Paths, tilde
from dspark_tui.text.foreign import drawable

if TYPE_CHECKING:
    from dspark_tui.app import DsparkApp
    from engine.proof.recording import Recorder


def main(argv: Sequence[str] | None = None) -> int:
    """Run `dspark-tui`; returns the exit code. Never lets a traceback reach the terminal."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = parse(words)
        if args.command:
            code = int(args.run(args))
        else:
            code = check_config() if args.check_config else run_workbench(args)
        sys.stdout.flush()  # here, where a pipe that nobody reads is no fault of ours
        return code
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # below the ^C that a terminal shows
        return Exit.INTERRUPTED
    except BrokenPipeError:  # who reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except Exception as error:
        paths = Paths.of_user()
        start_log(paths)
        logging.getLogger(__name__).critical("dspark-tui failed", exc_info=True)
        return failed(f"{type(error).__name__}: {error}", paths)


def check_config() -> int:
    """Print what is wrong with config.toml, one line each."""
    path = Paths.of_user().config
    problems = config.load(path).problems
    for problem in problems:
        print(drawable(str(problem)), file=sys.stderr)
    if not problems:
        print(
            f"{tilde(path)}: {'no problems' if path.exists() else 'does not exist, which is fine'}"
        )
    return Exit.UNUSABLE if problems else Exit.DONE


def run_workbench(args: argparse.Namespace) -> int:
    paths = Paths.of_user()
    loaded = config.load(paths.config)
    try:
        apply_arguments(loaded, args)
        if is_headless(args):
            return run_headless(args, loaded, paths)
        terminal.refuse_dumb("--plain answers without one")
        recorder = start_recording(args.record) if args.record else None
    except ValueError as error:
        return refuse(str(error))
    terminal.fit(loaded)
    notices = [*problem_notice(loaded.problems), *start_log(paths)]
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    gc.disable()  # what is imported and built stays: the app enables it with its first frame
    fresh = bool(args.new or args.pane or args.prompt)
    app = build_app(loaded.settings, paths, notices, args.prompt, recorder, fresh=fresh)
    failure = run_app(app)
    if recorder is not None:
        end_recording(recorder)
    return failed(failure, paths) if failure else Exit.DONE


def is_headless(args: argparse.Namespace) -> bool:
    """Is plain text wanted, or no terminal there for anything else?"""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return args.plain or args.json or args.prompt == "-" or not terminal


def run_headless(args: argparse.Namespace, loaded: config.Loaded, paths: Paths) -> int:
    """Raises ValueError with one line if there is nothing to send, or no such theme."""
    from dspark_tui.oneshot import Order, run

    if args.theme:
        refuse_unknown_theme(args.theme, paths)
    prompt = args.prompt
    if prompt == "-" or not (prompt or sys.stdin.isatty()):
        prompt = read_prompt()
    talks = args.plain and not args.json and not args.prompt and sys.stdin.isatty()
    if not prompt.strip() and not talks:
        raise ValueError(
            "nothing to send: without a terminal give -p TEXT or a prompt on standard input; "
            "`dspark-tui serve` runs the engine alone"
        )
    if "panes" not in loaded.sources:
        loaded.set("panes", (PaneParams(),), COMMAND_LINE)  # the same twice is for watching
    for problem in problem_notice(loaded.problems):
        print(problem, file=sys.stderr)
    start_log(paths)
    return run(Order(loaded.settings, paths, prompt, args.json, args.record))


def refuse_unknown_theme(name: str, paths: Paths) -> None:
    """Raises ValueError with one line. Where there is a screen, that says it."""
    from dspark_tui.appearance.theming import unknown

    if problem := unknown(name, paths.config.parent / "themes"):
        raise ValueError(f"--theme: {problem}")


def read_prompt() -> str:
    """All of standard input but the last line's end. Raises ValueError."""
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError:
        raise ValueError("standard input is not UTF-8 text") from None


def build_app(
    settings: config.Settings,
    paths: Paths,
    notices: Iterable[str],
    prompt: str,
    recorder: Recorder | None = None,
    *,
    fresh: bool = False,
) -> DsparkApp:
    """The app on its panes' engines. recorder: hears the events of the active pane's. fresh: with
    a new session."""
    from concurrent.futures import ThreadPoolExecutor

    from dspark_tui.storage.workspaces import Opened, Workspaces

    def open_sessions() -> tuple[Workspaces, Opened | None]:
        workspaces = Workspaces(paths.sessions)
        return workspaces, None if fresh else workspaces.latest()

    with ThreadPoolExecutor(1) as beside:
        sessions = beside.submit(open_sessions)  # the disk has its time while this is imported:
        from dspark_tui.app import DsparkApp, Start
        from dspark_tui.engines.engines import Engines, place_of

    engines = Engines(lambda name: place_of(name, settings, paths), settings.engines)
    app = DsparkApp(Start(settings, paths, tuple(notices), prompt), engines, *sessions.result())
    if recorder is not None:
        app.workbench.link.on_event = recorder.write
    return app


def run_app(app: DsparkApp) -> str:
    """Run it to its end and take the engine down. Returns what went wrong in it, "" if nothing."""
    import asyncio

    async def run() -> None:
        try:
            await app.run_async()
        finally:
            await app.close()

    asyncio.run(run())
    return app.failure


def problem_notice(problems: Sequence[config.Problem]) -> list[str]:
    """One line for all problems together."""
    if not problems:
        return []
    more = f" (and {len(problems) - 1} more: dspark-tui --check-config)" if problems[1:] else ""
    return [f"{problems[0]}{more}"]


def start_log(paths: Paths) -> list[str]:
    """Send all logging to the file; where that can't be written, nowhere, and say so once."""
    handler: logging.Handler = logging.NullHandler()
    notices = []
    try:
        paths.log.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(paths.log, maxBytes=1_000_000, backupCount=2)
    except OSError as error:
        reason = error.strerror or error
        notices = [f"{tilde(paths.log.parent)} can't be written ({reason}): this run leaves no log"]
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return notices


def start_recording(path: Path) -> Recorder:
    """Raises ValueError with one line."""
    from engine.proof.recording import Recorder, RecordingError

    try:
        return Recorder(path)
    except RecordingError as error:
        raise ValueError(str(error)) from None


def end_recording(recorder: Recorder) -> None:
    """Close it and say what became of it."""
    recorder.close()
    plays = f"recorded; dspark-tui replay {tilde(recorder.path)} plays it"
    print(f"dspark-tui: {recorder.problem or plays}", file=sys.stderr)


def refuse(message: str) -> int:
    print(f"dspark-tui: {drawable(message)}", file=sys.stderr)
    return Exit.UNUSABLE


def failed(failure: str, paths: Paths) -> int:
    """One line for a fault of ours, and where the rest of the story is."""
    line = drawable(failure.splitlines()[0])
    print(f"dspark-tui failed: {line}; the whole story is in {paths.log}", file=sys.stderr)
    return Exit.FAILED
