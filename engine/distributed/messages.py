"""What the ranks tell each other.

Rank 0 sends each rank one ordered record: the calls its loop gets, and every reading of the clock
the loop takes. Nothing else that could differ between ranks enters a loop, so all loops do the
same. A reading is a bare float.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.distributed.division import Division
from engine.distributed.hosts import Backend
from engine.types import EngineSettings, GenerationRequest


@dataclass(frozen=True, slots=True)
class Hello:
    """A rank's first words. ports: free ones, one for each of its addresses; None where this
    machine has no such address. versions: of all code that has to agree. place: variables with
    which rank 0 takes the place of this process; only its stand-in over MPI sends some."""

    rank: int
    pid: int
    ports: tuple[int | None, ...]
    versions: str
    place: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """What to load and how to find the others. ranks, memories: how many. model: as on the command
    line. digest: of its config.json. precision: the one rank 0 chose. environment, files: variables
    for MLX, and variables that name a file of this content."""

    ranks: int
    memories: int
    division: Division
    model: str | None
    digest: str
    precision: str
    kv_bits: int | None
    backend: Backend
    environment: dict[str, str]
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Joining:
    """The rank has all it needs and connects to the others next."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rank's share is in memory. free_bytes: what K/V may take."""

    free_bytes: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Make a loop with these settings, whose sizes are one layer's."""

    settings: EngineSettings


@dataclass(frozen=True, slots=True)
class Beat:
    """The rank is alive. place: how many messages of the record it has taken."""

    place: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The rank can't go on; one line."""

    error: str


@dataclass(frozen=True, slots=True)
class Enqueue:
    request: GenerationRequest
    queued: float


@dataclass(frozen=True, slots=True)
class Cancel:
    request: str


@dataclass(frozen=True, slots=True)
class Pause:
    paused: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """state: a checksum of the rows as they are before it."""

    state: int


@dataclass(frozen=True, slots=True)
class Stop:
    why: str


Call = Enqueue | Cancel | Pause | Turn | Stop
Message = Hello | Job | Joining | Loaded | Begin | Beat | Failed | Call | float
