"""The command line's words: which there are, and the settings they make."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from dspark_tui import __version__, config
from dspark_tui.conversation.params import PaneParams, ParamError, updated
from dspark_tui.engines.address import Address
from dspark_tui.engines.entries import engine_problem
from dspark_tui.exit_codes import Exit, in_words
from dspark_tui.setting import BATCH_LIMIT, DRAFT_LIMIT, PRECISIONS, share
from dspark_tui.text.foreign import drawable
from engine.speculate import DRAFTER_BITS, Speculate

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

HEEDS_ALL = "run"
"""The command for which options may stand before its name too."""

COMMAND_LINE = "command line"

OF_WORKERS = (
    *("model", "precision"),
    *("speculate", "drafter", "drafter_bits", "confidence", "max_draft"),
)
"""What only a worker of our own can be told."""

FLAGS = (*OF_WORKERS, "max_batch", "attach", "theme", "ascii")
"""Settings that have a flag of their own name."""

SHORT = {"T": "temperature"}
"""What --pane takes for a longer name."""


NEVER = {"--trust-remote-code": "code that comes with a checkpoint is never run"}
"""Options of other programs that there won't be here, and why."""

ALIKE = 0.7
"""How near a word has to be to be meant, by difflib's measure."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; argparse alone prints its usage first, however long."""

    _commands: argparse.Action | None = None

    def error(self, message: str) -> NoReturn:
        line = drawable(" ".join(message.split()))
        self.exit(
            Exit.UNUSABLE, f"dspark-tui: error: {line} ({self.prog} --help shows what there is)\n"
        )

    def add_subparsers(self, **fields: Any) -> Any:
        self._commands = super().add_subparsers(**fields)
        return self._commands

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but an option that isn't there is named, not the word that follows it."""
        for word in args:
            if word == "--" or word in self._command_names:
                break
            if _is_option(word) and not self._knows(word):
                name = word.partition("=")[0]
                hint = NEVER.get(name) or _meant(name, self._option_string_actions)
                self.error(f"there is no option {name}" + (f": {hint}" if hint else ""))
        return super().parse_known_args(args, namespace)

    @property
    def _command_names(self) -> list[str]:
        return [*(self._commands.choices or ())] if self._commands else []

    def _knows(self, option: str) -> bool:
        name = option.partition("=")[0]
        if name.startswith("--"):  # may be shortened
            return any(known.startswith(name) for known in self._option_string_actions)
        return option[:2] in self._option_string_actions

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        names = self._command_names
        if action is self._commands and value not in names:
            prompt = "a prompt comes after -p" if " " in value else ""
            hint = prompt or _meant(value, names) or f"there are {', '.join(names)}"
            self.error(f"there is no command {value!r}: {hint}")
        super()._check_value(action, value)


def _is_option(word: str) -> bool:
    """Does argparse take it for one? Negative numbers and texts with blanks are values."""
    return word[:1] == "-" and word[1:2] not in "0123456789." and " " not in word


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, known, 1, ALIKE)
    return f"did you mean {near[0]}?" if near else ""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """What the words mean; ends the program with one line if they mean nothing."""
    parser = build_parser(words)
    args = parser.parse_args(words)
    if args.command and args.command != HEEDS_ALL:
        before = takewhile(lambda word: word != args.command, words)
        if lost := next(filter(_is_option, before), ""):
            parser.error(f"{lost} does nothing before {args.command}: its options come after it")
    return args


def build_parser(words: Iterable[str] = ()) -> argparse.ArgumentParser:
    """The parser; subcommands that `words` can't mean are present as a help line only."""
    parser = Parser(
        prog="dspark-tui",
        description="Chat panes that share one continuous-batching engine you can watch at work.",
        epilog=in_words("-p", "Exit code without a screen"),
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--model", metavar="M", help="folder, .gguf file, hub id or known name")
    parser.add_argument(
        "--max-batch", type=slots, metavar="N", help="slots of the batch (default 8)"
    )
    parser.add_argument("--precision", choices=PRECISIONS, help="of the weights")
    parser.add_argument(
        "--speculate", choices=[kind.value for kind in Speculate], help="guess tokens ahead"
    )
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
    parser.add_argument("--theme", metavar="NAME", help="of the colours; ^P chooses one")
    parser.add_argument("--ascii", action="store_true", default=None, help="draw with ASCII only")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the engine's events to that new file, for replay",
    )
    parser.add_argument("--check-config", action="store_true", help="check config.toml and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        if name in words:
            importlib.import_module(f"dspark_tui.commands.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


def slots(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= BATCH_LIMIT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {BATCH_LIMIT}")
    return int(text)


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
    if attach := loaded.settings.attach:
        Address.parse(attach)
        if told := [key for key in OF_WORKERS if getattr(args, key) is not None]:
            flag = f"--{told[0].replace('_', '-')}"
            raise ValueError(f"{flag} is for a worker of our own, not for the server at {attach}")
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
        if key == "name" and "=" in value:
            raise ParamError(f"--pane {word}: words are set apart by blanks, and no name holds a =")
        try:
            params = updated(params, {SHORT.get(key, key): value})
        except ParamError as error:
            blanks = "; words are set apart by blanks" if "=" in value else ""
            raise ParamError(f"--pane {word}: {error}{blanks}") from None
    return params
