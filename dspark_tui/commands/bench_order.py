"""What a bench was told on its command line, checked before anything starts."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dspark_tui.commands.outputs import check_output
from dspark_tui.engines.address import Address
from engine.proof.endpoint import Target
from engine.proof.probes import PROBES, Kind, Plan
from engine.proof.recording import RecordingError, check_path
from engine.proof.verdict import ENOUGH_TOKENS

PROBE_NAMES = ", ".join(PROBES)
WIDEST = 256
STDOUT = "-"
SECRETS = ("--api-key", "--header")


class BenchError(Exception):
    """Nothing to report. `str()` is one line for the person."""


class Order(Struct, frozen=True):
    """address None: a worker of our own, for `model` ("" the embedded one) at `precision`, with
    `max_batch` slots.
    Elsewhere model is what the server calls it, "" the first it lists. timeout: seconds."""

    plan: Plan
    address: Address | None
    model: str
    max_batch: int
    precision: str
    api_key: str | None
    headers: tuple[tuple[str, str], ...]
    timeout: int
    record: str | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Order:
        """Raises BenchError naming the option that makes no sense."""
        try:
            if args.url and (args.max_batch or args.precision):
                raise ValueError("--max-batch and --precision are for a worker started here")
            _check_outputs(args)
            return cls(
                plan=_plan(args),
                address=Address.parse(args.url) if args.url else None,
                model=args.model or "",
                max_batch=_number("--max-batch", args.max_batch or "8", WIDEST),
                precision=args.precision or "auto",
                api_key=args.api_key or os.environ.get("DSPARK_API_KEY") or None,
                headers=tuple(_header(line) for line in args.header),
                timeout=_number("--timeout", args.timeout, 86_400),
                record=args.record,
            )
        except (ValueError, RecordingError) as error:
            raise BenchError(str(error)) from None

    @property
    def place(self) -> str:
        """The server as a report names it."""
        if self.address is None:
            return f"a worker of our own, {self.max_batch} slots"
        return without_password(str(self.address))

    def at(self, socket: Path) -> Order:
        """The same of the worker that was started for it, which has one model under any name."""
        return replace(self, address=Address.of_socket(socket), model="")

    @property
    def target(self) -> Target:
        """Where the requests go; only once there is an address."""
        assert self.address is not None
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return Target(
            url=self.address.url,
            socket=self.address.socket,
            model=self.model or None,
            headers=key | dict(self.headers),
            timeout=self.timeout,
            proxies=not self.address.local,
        )


def shown_command(arguments: Iterable[str]) -> str:
    """The command to run again; what unlocks the server is left out."""
    shown, secret = ["dspark-tui"], False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        hides = option in SECRETS
        masked = "…" if secret else f"{option}=…" if hides and equals else ""
        shown.append(masked or shlex.quote(without_password(argument)))
        secret = hides and not equals
    return " ".join(shown)


def without_password(url: str) -> str:
    return re.sub(r"(?<=//)[^/@]*@", "", url)


def _check_outputs(args: argparse.Namespace) -> None:
    """Raises OutputError, RecordingError."""
    if args.json and args.json != STDOUT:
        check_output("--json", Path(args.json))
    if args.svg:
        check_output("--svg", Path(args.svg))
    if args.record:
        check_path(Path(args.record))


def _plan(args: argparse.Namespace) -> Plan:
    widths = {_number("--n", text, WIDEST) for text in args.n.split(",")}
    plan = Plan(
        widths=tuple(sorted(widths | {1})),  # without a baseline nothing can be gained
        tokens=_number("--tokens", args.tokens, 1_000_000),
        repeat=_number("--repeat", args.repeat, 1000),
        probes=_probes(args.probes),
        seed=args.seed,
    )
    if plan.widths == (1,):
        raise ValueError(
            f"--n takes whole numbers from 1 to {WIDEST}, 2 or more among them, not {args.n!r}: "
            "a request alone is measured anyway"
        )
    if plan.tokens < ENOUGH_TOKENS and not args.flips:
        raise ValueError(
            f"--tokens {plan.tokens} is too short to tell anything: give {ENOUGH_TOKENS} or more"
        )
    return plan


def _probes(text: str) -> tuple[Kind, ...]:
    known = {"all": PROBES, "none": ()}
    names = [kind for name in text.split(",") for kind in known.get(name, (name,))]
    if unknown := [name for name in names if name not in PROBES]:
        raise ValueError(f"--probes knows all, none, {PROBE_NAMES}, not {unknown[0]!r}")
    return tuple(Kind(name) for name in dict.fromkeys(names))


def _number(option: str, text: str, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise ValueError(f"{option} takes whole numbers from 1 to {most}, not {text!r}")
    return number


def _header(line: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in line.partition(":"))
    if not colon or not name:
        raise ValueError(f"--header takes 'NAME: VALUE', not {line!r}")
    return name, value
