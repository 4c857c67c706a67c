"""Ranks over MPI: Open MPI's `mpirun` starts them all at once.

`mpirun` takes every process of the group for its own, but rank 0 is a server that somebody else
started, with a terminal, signals, an exit code and a parent to watch. Run below `mpirun` it would
lose these: `mpirun` does not pass on the end of its input, answers a signal by killing all, and
lets no rank survive another to tell of it. So `mpirun` starts a stand-in for rank 0. What makes a
process a member of the group is its environment; the stand-in lends its own, rank 0 joins with
that, and the other ranks are started like any. Whichever ends first, `mpirun` ends the rest and
says why.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import shorten

from engine.distributed.hosts import Hosts
from engine.distributed.process import KILL_SECONDS, Process
from engine.distributed.rank import SSH, Rank, program
from engine.distributed.token import VARIABLE
from engine.models.errors import ModelError

LENT = ("OMPI_", "OPAL_", "PMIX_", "PRTE_")
"""How the variables begin that make a process a member of the group, in Open MPI 4 and 5."""

SURVIVE = {"OMPI_MCA_mpi_abort_delay": "-1"}
"""Where a connection to a rank breaks, Open MPI ends the process that notices; with this its thread
waits for ever instead, and the process can still say which rank it was."""

AGENT = dict.fromkeys(("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"), " ".join(SSH))
"""How `mpirun` reaches other machines, in Open MPI 4 and 5."""

QUIET = {"OPAL_OUTPUT_REDIRECT": "file"}
"""What Open MPI has to say of that goes to a file of its own, not to rank 0's terminal."""

REASON_LIMIT = 300  # characters


class MpiRun(Process):
    """All ranks' process."""

    _told_to_end = False

    def ended(self, wait: float = 0) -> str | None:
        how = super().ended(wait)
        if how is None:
            return None
        # Killed itself, it has told nobody, and the ranks don't know why they are alone.
        killed = self._process.returncode < 0 and not self._told_to_end
        return f"ended with mpirun{f', which {how}' if killed else _reason(self._said())}"

    def close(self, seconds: float) -> None:
        """Nothing: it ends after rank 0's process; before that, Open MPI would complain there."""
        if self._told_to_end:
            super().kill()

    def kill(self) -> None:
        """Have it end all ranks, wherever they are and even if they are stopped."""
        if not self._told_to_end:
            self._told_to_end = True
            self._process.terminate()
            self.ended(KILL_SECONDS)


def together(hosts: Hosts, leader: tuple[str, int], token: bytes) -> Iterator[Rank]:
    """All ranks from 1 up, and the stand-in for rank 0. As `one_by_one`."""
    environment = {
        **AGENT,
        **os.environ,
        # Ours names a folder for MLX's kernels.
        "TMPDIR": tempfile.gettempdir(),
        **SURVIVE,
        **hosts.environment,
        VARIABLE: token.decode(),
    }
    run = MpiRun("mpirun", command(launcher(), hosts, leader), environment=environment)
    for host in (*hosts.ranks[1:], hosts.ranks[0]):
        yield Rank(host, run)


def command(mpirun: str, hosts: Hosts, leader: tuple[str, int]) -> list[str]:
    """One program for each rank, in their order: so `mpirun` numbers them as the file does."""
    names = ["localhost" if host.rank == 0 or host.local else host.name for host in hosts.ranks]
    slots = Counter(names)
    # It refuses to run for root; whoever runs a server as root has decided that already.
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    parts = [mpirun, *root, "--bind-to", "none"]
    for host, name in zip(hosts.ranks, names, strict=True):
        where = ["-n", "1", "-x", VARIABLE, "--host", f"{name}:{slots[name]}"]
        parts += [*([":"] if host.rank else []), *where, *program(host, leader)]
    return parts


def launcher() -> str:
    """Open MPI's launcher, the one installed with this Python first. Raises ModelError."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("mpirun", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        raise ModelError(
            'there is no mpirun here: install Open MPI, or use the backend "ring" instead of "mpi"'
        )
    return found


def library() -> str:
    """Open MPI's library, for MLX: beside its mpirun, else where the system finds it."""
    name = "libmpi.dylib" if sys.platform == "darwin" else "libmpi.so.40"
    beside = Path(launcher()).parents[1] / "lib" / name
    return str(beside) if beside.exists() else name


def lent(environment: Mapping[str, str]) -> dict[str, str]:
    """Of the stand-in's environment what rank 0 needs to take its place."""
    return {name: value for name, value in environment.items() if name.startswith(LENT)} | QUIET


def _reason(said: str) -> str:
    """Of all that mpirun and the ranks wrote what tells most."""
    # mpirun frames what it says itself, and its library begins lines with the process.
    words, *framed = re.split(r"^-{20,}$", said.replace("\0", ""), flags=re.MULTILINE)
    words = "\n".join([words, *framed[1::2]])
    lines = [line for line in words.splitlines() if line.strip() and line[0] != "["]
    notes = [note for note in framed[::2] if note.strip()]
    killed = [note for note in notes if re.search(r"exited on\s+signal", note)]
    telling = killed or lines or notes
    return f": {shorten(telling[-1], REASON_LIMIT, placeholder='…')}" if telling else ""
