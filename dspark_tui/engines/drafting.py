"""How a worker of our own guesses tokens ahead, as settings say it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.speculate import Speculate


@dataclass(frozen=True, slots=True)
class Drafting:
    """drafter: folder or hub id, "" for the one that is known. max_draft: 0 for as many as pay."""

    speculate: str = Speculate.OFF
    drafter: str = ""
    max_draft: int = 0

    @property
    def options(self) -> list[str]:
        """What the worker's command line says of it."""
        if self.speculate == Speculate.OFF:
            return []
        words = ["--speculate", self.speculate]
        words += ["--drafter", self.drafter] if self.drafter else []
        return [*words, "--max-draft", str(self.max_draft)] if self.max_draft else words
