"""What each command's exit code means: help and README's table come from here."""

from __future__ import annotations

from textwrap import wrap

from msgspec import Struct

from engine.exit_codes import Exit

__all__ = ["MEANINGS", "Exit", "exit_table", "in_words"]

CODES = (Exit.DONE, Exit.FAILED, Exit.UNUSABLE, Exit.NO)


class Meaning(Struct, frozen=True):
    """Of the CODES for one command, "" for a code it never ends with."""

    done: str
    failed: str
    unusable: str = ""
    no: str = ""

    def of(self, code: Exit) -> str:
        return (self.done, self.failed, self.unusable, self.no)[CODES.index(code)]


WORDS = "words it can't understand"
"""What 2 means for every command, whatever else it means."""

MEANINGS = {
    "": Meaning("quit", "a fault of its own", "it can't start as asked"),
    "-p": Meaning("all panes answered", "not all did", "nothing to send"),
    "--check-config": Meaning("no problem", "a fault of its own", "problems"),
    "serve": Meaning(
        "stopped by a signal",
        "the engine failed",
        "it can't start as asked",
        "--strict, and something is refused",
    ),
    "bench": Meaning("batched", "an error", "could not tell", "not batched"),
    "run": Meaning("all assertions hold", "an error", no="some assertions don't hold"),
    "models": Meaning("done", "not done"),
    "config": Meaning("shown, without problems", "a fault of its own", "shown, with problems"),
    "audit": Meaning("measured", "an error"),
    "doctor": Meaning("no errors", "errors"),
    "replay": Meaning("played, or printed", "it can't be read"),
}
"""By command, and for what NAMES calls otherwise."""

NAMES = {"": "workbench", "-p": "without a screen"}

INTERRUPTIONS = (
    f"Ctrl+C ends all but the workbench and `serve` with {Exit.INTERRUPTED}, and so does SIGTERM "
    "`-p` and `run`; a `bench` that has measured something still judges that."
)


def in_words(command: str, heading: str = "Exit code") -> str:
    """For the end of its help."""
    meaning = MEANINGS[command]
    told = [f"{code:d} {words}" for code in CODES if (words := meaning.of(code))]
    if not meaning.unusable:
        told.insert(2, f"{Exit.UNUSABLE:d} {WORDS}")
    return f"{heading}: {'; '.join(told)}."


def exit_table() -> str:
    """The README's table, in Markdown."""
    rows = [f"| | {' | '.join(str(int(code)) for code in CODES)} |", "|---|" + "---|" * len(CODES)]
    for command, meaning in MEANINGS.items():
        name = NAMES.get(command, f"`{command}`")
        rows.append(f"| {name} | {' | '.join(map(meaning.of, CODES))} |")
    return "\n".join([*rows, "", *wrap(f"2 is also for {WORDS}. {INTERRUPTIONS}", 100)]) + "\n"
