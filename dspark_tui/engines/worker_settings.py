"""What a worker of our own serves, and how."""

from __future__ import annotations

from msgspec import Struct

from engine.speculate import Speculate


class WorkerSettings(Struct, frozen=True):
    """model: "" for the embedded one. drafter: folder or hub id, "" for the one that is known.
    drafter_bits: 0 for as it is stored. confidence: of each guess, the least. max_draft: 0 for as
    many as pay."""

    model: str = ""
    max_batch: int = 8
    precision: str = "auto"
    speculate: str = Speculate.OFF
    drafter: str = ""
    drafter_bits: int = 0
    confidence: float = 0.0
    max_draft: int = 0

    @property
    def drafting_options(self) -> list[str]:
        """What the worker's command line says of guessing tokens ahead."""
        if self.speculate == Speculate.OFF:
            return []
        said = {
            "--speculate": self.speculate,
            "--drafter": self.drafter,
            "--drafter-bits": self.drafter_bits,
            "--confidence": self.confidence,
            "--max-draft": self.max_draft,
        }
        return [word for flag, value in said.items() if value for word in (flag, str(value))]
