"""`dspark-tui serve`: the engine as a server for any OpenAI client, without the workbench."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from dspark_tui.exit_codes import in_words
from engine.events import Capability, Snapshot
from engine.events import Progress as StartUp

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DEFAULT_PORT = 8642


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    from engine.server.options import add_arguments

    parser = subparsers.add_parser(
        "serve",
        help="run the engine as a server, without the workbench",
        description="Serve one model to any OpenAI client, all requests in one batch.",
        epilog=in_words("serve"),
    )
    add_arguments(parser, DEFAULT_PORT)
    parser.set_defaults(run=run, parent_pipe=False)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl+C; the exit code."""
    from engine.server.options import ServeOptions
    from engine.server.process import run as serve

    reporter = ConsoleReporter(Console(stderr=True))
    code = serve(ServeOptions.of(args), reporter)
    if code == 0:
        reporter.stopped()
    return code


class ConsoleReporter:
    """Start-up as a person likes to see it: a bar while it lasts, then the facts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}", style="dim"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._stage = ""

    def progress(self, progress: StartUp) -> None:
        if self._stage != progress.stage:
            self._stage = progress.stage
            if not self._console.is_terminal:
                self._say(f"{progress.stage}: {progress.detail}")
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", amount="")
        self._bar.update(
            self._task,
            description=Text(f"{progress.stage}  {progress.detail}").markup,
            completed=progress.done,
            total=progress.total or None,
            amount=amount(progress),
        )

    def ready(self, url: str, state: Snapshot) -> None:
        self._bar.stop()
        facts = {
            "model": Text(state.model.id if state.model else "", style="bold"),
            "address": Text(f"{url}/v1" if url.startswith("http") else url),
            "slots": Text(str(state.slots)),
            **{capability.feature: _effect(capability) for capability in state.capabilities},
        }
        lead = max(map(len, facts)) + 2
        for name, fact in facts.items():
            self._fact(name.ljust(lead), fact)
        if self._console.is_terminal:
            self._console.print("Ctrl+C stops it.", style="dim")

    def failed(self, message: str, log: Path | None) -> None:
        self._bar.stop()
        self._say(f"dspark-tui serve: {message}")
        if log:
            self._say(f"details: {log}")

    def stopped(self) -> None:
        """It was told to stop, and has; below the ^C that a terminal shows."""
        above = "\n" if self._console.is_terminal else ""
        self._console.print(f"{above}stopped", style="dim")

    def _fact(self, name: str, fact: Text) -> None:
        """Long ones hang below their beginning on a terminal, and are one line elsewhere."""
        lines = [fact]
        if self._console.is_terminal:
            lines = list(fact.wrap(self._console, max(1, self._console.width - len(name))))
        for line in lines:
            line.rstrip()
            self._console.print(Text.assemble((name, "dim"), line), soft_wrap=True)
            name = " " * len(name)

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def _effect(capability: Capability) -> Text:
    if capability.refused:
        asked = f"WARNING: asked for {capability.requested}, got {capability.effective}: "
        return Text(asked + capability.why, style="bold yellow")
    return Text(f"{capability.effective}  ").append(capability.why, style="dim")


def amount(progress: StartUp) -> str:
    """How far a stage is, in its own unit."""
    if not progress.total:
        return ""
    if progress.unit == "bytes":
        return f"{progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB"
    return f"{progress.done} of {progress.total} {progress.unit}".rstrip()
