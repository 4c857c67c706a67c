"""The command line. Imports nothing heavy: `--help` and `--version` answer at once."""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dspark_tui import __version__, config, terminal
from dspark_tui.conversation.params import PaneParams, ParamError, updated
from dspark_tui.engines.address import Address
from dspark_tui.engines.entries import engine_problem
from dspark_tui.paths import Paths, tilde
from dspark_tui.setting import BATCH_LIMIT, DRAFT_LIMIT, PRECISIONS, share
from dspark_tui.text.foreign import drawable
from engine.speculate import DRAFTER_BITS, Speculate

if TYPE_CHECKING:
    from dspark_tui.app import DsparkApp
    from engine.proof.recording import Recorder

COMMANDS = {
    "serve": "run the engine as a server, without the workbench",
    "bench": "find out by completion times whether a server batches",
    "run": "run an experiment and write its results",
    "models": "list, fetch and remove models",
    "config": "show the settings in force and where each comes from",
    "audit": "bytes per token, memory bandwidth, and how near decoding comes to the limit",
    "doctor": "check everything a start depends on",
    "replay": "play a recording of the engine's events",
}
"""Name and help of each module in `commands`; a module is imported only when its command runs."""

COMMAND_LINE = "command line"

FLAGS = (
    *("model", "max_batch", "precision"),
    *("speculate", "drafter", "drafter_bits", "confidence", "max_draft"),
    *("attach", "theme", "ascii"),
)
"""Settings that have a flag of their own name."""

SHORT = {"T": "temperature"}
"""What --pane takes for a longer name."""

GC_THRESHOLDS = (50_000, 20, 50)
"""Python's own make the collector walk all widgets so often that it is seen as stutter, and walk
what is being imported several times over before the first frame."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; argparse alone prints its usage first, however long."""

    def error(self, message: str) -> NoReturn:
        line = drawable(" ".join(message.split()))
        self.exit(2, f"dspark-tui: error: {line} ({self.prog} --help shows what there is)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `dspark-tui`; returns the exit code. Never lets a traceback reach the terminal."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        args = build_parser(arguments).parse_args(arguments)
        if args.command:
            code = int(args.run(args))
        else:
            code = check_config() if args.check_config else run_workbench(args)
        sys.stdout.flush()  # here, where a pipe that nobody reads is no fault of ours
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        paths = Paths.of_user()
        start_log(paths)
        logging.getLogger(__name__).critical("dspark-tui failed", exc_info=True)
        return failed(f"{type(error).__name__}: {error}", paths)


def build_parser(arguments: Iterable[str] = ()) -> argparse.ArgumentParser:
    """The parser; subcommands that `arguments` can't mean are present as a help line only."""
    parser = Parser(
        prog="dspark-tui",
        description="Chat panes that share one continuous-batching engine you can watch at work.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--model", metavar="M", help="folder, .gguf file, hub id or known name")
    parser.add_argument("--max-batch", type=int, metavar="N", help="slots of the batch (default 8)")
    parser.add_argument("--precision", choices=PRECISIONS, help="of the weights")
    parser.add_argument("--speculate", choices=list(Speculate), help="guess tokens ahead")
    parser.add_argument("--drafter", metavar="D", help="the model that guesses")
    parser.add_argument(
        "--drafter-bits", type=int, choices=DRAFTER_BITS, help="quantize that model at load"
    )
    parser.add_argument(
        "--confidence",
        type=likelihood,
        metavar="P",
        help="end guesses it finds less likely, 0 to 1",
    )
    parser.add_argument(
        "--max-draft", type=draft_length, metavar="N|auto", help="tokens guessed at once"
    )
    parser.add_argument("--attach", metavar="URL", help="use a running server, by URL or socket")
    parser.add_argument(
        "--api-key", metavar="K", help="of that server; DSPARK_API_KEY keeps it out of sight"
    )
    parser.add_argument(
        "--pane", action="append", nargs="+", metavar="K=V", default=[],
        help="open a pane with these parameters, e.g. --pane name=cold temperature=0; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "-p", dest="prompt", metavar="TEXT", default="",
        help="send this to all panes; - reads it from standard input",
    )  # fmt: skip
    parser.add_argument(
        "--new", action="store_true",
        help="begin a new session instead of the last one, as --pane and -p do",
    )  # fmt: skip
    parser.add_argument(
        "--plain", action="store_true", help="no screen: answers as plain text, pane by pane"
    )
    parser.add_argument(
        "--json", action="store_true", help="no screen: the answers and their times as JSON"
    )
    parser.add_argument("--theme", metavar="NAME")
    parser.add_argument("--ascii", action="store_true", default=None, help="draw with ASCII only")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write the engine's events there, for replay"
    )
    parser.add_argument("--check-config", action="store_true", help="check config.toml and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        if name in arguments:
            importlib.import_module(f"dspark_tui.commands.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


def check_config() -> int:
    """Print what is wrong with config.toml, one line each; 2 if anything is."""
    path = Paths.of_user().config
    problems = config.load(path).problems
    for problem in problems:
        print(drawable(str(problem)), file=sys.stderr)
    if not problems:
        print(
            f"{tilde(path)}: {'no problems' if path.exists() else 'does not exist, which is fine'}"
        )
    return 2 if problems else 0


def run_workbench(args: argparse.Namespace) -> int:
    gc.set_threshold(*GC_THRESHOLDS)
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
    fresh = bool(args.new or args.pane or args.prompt)
    app = build_app(loaded.settings, paths, notices, args.prompt, recorder, fresh=fresh)
    failure = run_app(app)
    if recorder is not None:
        end_recording(recorder)
    return failed(failure, paths) if failure else 0


def is_headless(args: argparse.Namespace) -> bool:
    """Is plain text wanted, or no terminal there for anything else?"""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return args.plain or args.json or args.prompt == "-" or not terminal


def run_headless(args: argparse.Namespace, loaded: config.Loaded, paths: Paths) -> int:
    """Raises ValueError with one line if there is nothing to send."""
    from dspark_tui.oneshot import Order, run

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
    from dspark_tui.app import DsparkApp, Start
    from dspark_tui.engines.engines import Engines, place_of

    engines = Engines(lambda name: place_of(name, settings, paths), settings.engines)
    app = DsparkApp(Start(settings, paths, tuple(notices), prompt, fresh), engines)
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


def draft_length(text: str) -> int:
    """0 for auto."""
    if text == "auto":
        return 0
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= DRAFT_LIMIT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number up to {DRAFT_LIMIT}, nor auto")
    return int(text)


def likelihood(text: str) -> float:
    """0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if share(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def apply_arguments(loaded: config.Loaded, args: argparse.Namespace) -> None:
    """Let the command line win over config.toml. Raises ValueError with one line."""
    for key in FLAGS:
        value = getattr(args, key)
        if value is not None:
            loaded.set(key, value, COMMAND_LINE)
    if not 1 <= loaded.settings.max_batch <= BATCH_LIMIT:
        raise ValueError(f"--max-batch takes a whole number from 1 to {BATCH_LIMIT}")
    if loaded.settings.attach:
        Address.parse(loaded.settings.attach)
    if api_key := args.api_key or os.environ.get("DSPARK_API_KEY"):
        loaded.set("api_key", api_key, COMMAND_LINE)
    if args.pane:
        panes = tuple(pane_of(words) for words in args.pane)
        if len(panes) > config.MAX_PANES:
            raise ValueError(f"--pane opens at most {config.MAX_PANES} panes")
        for pane in panes:
            if problem := engine_problem(pane.engine, loaded.settings.engines):
                raise ValueError(f"--pane: engine {problem}")
        loaded.set("panes", panes, COMMAND_LINE)


def pane_of(words: Iterable[str]) -> PaneParams:
    """A pane's parameters from K=V words. Raises ParamError."""
    params = PaneParams()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ParamError(f"--pane takes K=V words such as temperature=0, not {word!r}")
        params = updated(params, {SHORT.get(key, key): value})
    return params


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
    return 2


def failed(failure: str, paths: Paths) -> int:
    """One line for a fault of ours, and where the rest of the story is."""
    line = drawable(failure.splitlines()[0])
    print(f"dspark-tui failed: {line}; the whole story is in {paths.log}", file=sys.stderr)
    return 1
