"""What an engine process is told at its start, and the command line that says it."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.speculate import DRAFTER_BITS, Speculate

DEFAULT_HOST = "127.0.0.1"
DEFAULT_MAX_BATCH = 8
DEFAULT_QUEUE = 256
KV_BITS = (8, 4)
STUCK_AFTER = 120
PRECISIONS = ("auto", "fp32", "fp16", "bf16", "stored")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """port 0 takes any free one. socket: a Unix socket instead of host and port. parent_pipe:
    exit when standard input closes. log: a file instead of the usual one. record: a file for the
    engine's events. kv_bits: to quantize K and V. speculate, drafter, drafter_bits, max_draft,
    confidence: as in `EngineSettings`. prefix_cache: bytes for K and V of ended requests, None for
    a share of the memory. stuck_after: seconds, 0 for never. distributed: a hosts file. pipeline:
    each of its machines gets whole layers. cors: origins whose pages may use the server.
    log_prompts: into the log. strict: rather end than do without something that was asked for."""

    model: str | None
    max_batch: int
    queue: int
    precision: str
    host: str
    port: int
    socket: Path | None
    api_key: str | None
    parent_pipe: bool
    log: Path | None
    record: Path | None = None
    kv_bits: int | None = None
    speculate: Speculate = Speculate.OFF
    drafter: str | None = None
    drafter_bits: int | None = None
    max_draft: int | None = None
    confidence: float = 0.0
    prefix_cache: int | None = None
    stuck_after: float = STUCK_AFTER
    distributed: Path | None = None
    pipeline: bool = False
    cors: tuple[str, ...] = ()
    log_prompts: bool = False
    strict: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> ServeOptions:
        given = {each.name: getattr(args, each.name) for each in fields(cls)}
        given["api_key"] = args.api_key or os.environ.get("DSPARK_API_KEY") or None
        given["speculate"] = Speculate(args.speculate)
        given["cors"] = tuple(args.cors)
        return cls(**given)


def add_arguments(parser: argparse.ArgumentParser, default_port: int | None = None) -> None:
    """default_port None: the command line has to say where to listen."""
    parser.add_argument(
        "--model",
        metavar="M",
        help="folder, .gguf file, hub id or known name (default: the small embedded model)",
    )
    parser.add_argument(
        "--max-batch",
        type=_positive,
        default=DEFAULT_MAX_BATCH,
        metavar="N",
        help="slots of the batch",
    )
    parser.add_argument(
        "--queue", type=_positive, default=DEFAULT_QUEUE, metavar="N", help="requests that may wait"
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="of the weights")
    parser.add_argument(
        "--kv-bits",
        type=int,
        choices=KV_BITS,
        help="quantize K and V, in groups of 64 values, where the model allows it",
    )
    parser.add_argument(
        "--speculate",
        choices=[kind.value for kind in Speculate],
        default=Speculate.OFF,
        help="check several guessed tokens in one forward, which changes no answer: looked up in "
        "the text (ngram), by a model trained for it (dspark), or the best there is (auto)",
    )
    parser.add_argument(
        "--drafter",
        metavar="D",
        help="the model that guesses: folder or hub id (default: the one known for the model)",
    )
    parser.add_argument(
        "--drafter-bits", type=int, choices=DRAFTER_BITS, help="quantize that model as it is loaded"
    )
    parser.add_argument(
        "--confidence",
        type=_share,
        default=0.0,
        metavar="P",
        help="end a guess before the first token that this model finds less likely to be right, "
        "0 to 1 (default: 0)",
    )
    parser.add_argument(
        "--max-draft",
        type=_draft,
        metavar="N|auto",
        help="tokens to guess at once (default: auto, as many as pay on this machine)",
    )
    parser.add_argument(
        "--prefix-cache",
        type=_bytes,
        metavar="SIZE|off",
        help="memory for what ended requests read, for later ones that begin alike: 512M, 2G "
        "(default: an eighth of the memory for K and V)",
    )
    parser.add_argument(
        "--stuck-after",
        type=_seconds,
        default=STUCK_AFTER,
        metavar="SECONDS|off",
        help="report a step that takes longer (default: %(default)s)",
    )
    where = parser.add_mutually_exclusive_group(required=default_port is None)
    where.add_argument("--port", type=_port, default=default_port, metavar="P")
    where.add_argument("--socket", type=Path, metavar="PATH", help="a Unix socket instead")
    parser.add_argument("--host", default=DEFAULT_HOST, metavar="H")
    parser.add_argument(
        "--api-key", metavar="K", help="ask clients for this key (or set DSPARK_API_KEY)"
    )
    parser.add_argument(
        "--cors",
        action="append",
        default=[],
        type=_origin,
        metavar="ORIGIN",
        help="let pages of this origin use the server, such as http://localhost:3000; may be "
        "given several times",
    )
    parser.add_argument(
        "--log-prompts", action="store_true", help="write prompts into the log, too"
    )
    parser.add_argument("--trust-remote-code", nargs=0, action=_NoRemoteCode)
    parser.add_argument("--log", type=Path, metavar="FILE", help="instead of the usual log file")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write all events to that new file, for dspark-tui replay",
    )
    parser.add_argument(
        "--distributed",
        type=Path,
        metavar="HOSTS",
        help="share the model among the machines of a hosts file, as mlx.launch takes it",
    )
    parser.add_argument(
        "--pipeline",
        action="store_true",
        help="with --distributed: give each machine whole layers, instead of a part of every layer "
        "where the model can be divided so",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="end with exit code 3 if anything asked for can't be done, instead of a warning",
    )


class _NoRemoteCode(argparse.Action):
    """Known by name, so that the refusal says why."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields, help=argparse.SUPPRESS)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.error(
            f"{self.option_strings[0]}: code from a checkpoint is never run here; use a model "
            "whose architecture mlx-lm has"
        )


def _origin(text: str) -> str:
    """As browsers spell it: scheme, host, port and nothing else."""
    parts = urlsplit(text)
    if not parts.scheme or not parts.netloc or text != f"{parts.scheme}://{parts.netloc}":
        raise argparse.ArgumentTypeError(f"{text!r} is not an origin like http://localhost:3000")
    return text.lower()


def _positive(text: str) -> int:
    return _within(text, 1, 10**6, "a whole number from 1 up")


def _port(text: str) -> int:
    return _within(text, 0, 65535, "a port from 0 to 65535")


def _draft(text: str) -> int | None:
    return None if text == "auto" else _within(text, 1, 64, "a number of tokens up to 64, nor auto")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return share


def _bytes(text: str) -> int:
    """As in 512M, 1.5G or off."""
    if text == "off":
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)B?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 512M or 2G, nor off")
    return int(float(match[1]) * 1000 ** " kmgt".index(match[2].lower() or " "))


def _seconds(text: str) -> int:
    return 0 if text == "off" else _within(text, 1, 10**6, "a number of seconds, nor off")


def _within(text: str, low: int, high: int, what: str) -> int:
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)
