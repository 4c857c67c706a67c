"""The hosts file, in the format of `mlx.launch`: which machines make up the ranks."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from enum import StrEnum
from json import JSONDecodeError
from pathlib import Path
from typing import NoReturn

from mlx._distributed_utils.common import Hostfile


class Backend(StrEnum):
    """What carries the ranks' talk, as hosts files name it."""

    RING = "ring"
    JACCL = "jaccl"
    JACCL_RING = "jaccl-ring"
    MPI = "mpi"
    NCCL = "nccl"

    @property
    def in_mlx(self) -> str:
        """MLX's own name: a ring over JACCL is a setting there."""
        return self.JACCL if self is self.JACCL_RING else self

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f'the backend "{value}" can\'t be used; use {", ".join(cls)}')


LOOPBACK = ("127.0.0.1", "localhost", "::1")


class HostsError(Exception):
    """The hosts file can't be used. `str()` is one line."""


@dataclass(frozen=True, slots=True)
class RankHost:
    """Where a rank runs. name: for ssh. ips: where the other ranks reach it."""

    rank: int
    name: str
    ips: tuple[str, ...]

    @property
    def local(self) -> bool:
        return self.name in LOOPBACK

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.name})"


@dataclass(frozen=True, slots=True)
class Hosts:
    """All ranks, rank 0 first. rdma: for each rank the device to each other one, for JACCL.
    environment: variables to set on every rank."""

    backend: Backend
    ranks: tuple[RankHost, ...]
    rdma: tuple[tuple[str | None, ...], ...]
    environment: dict[str, str]

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def address(self) -> str:
        """Where the other ranks reach rank 0."""
        return self.ranks[0].ips[0]

    def device(self, host: RankHost) -> int:
        """With NCCL the number of a rank's GPU among those of its machine, else 0."""
        others = [other.name for other in self.ranks[: host.rank]]
        return others.count(host.name) if self.backend is Backend.NCCL else 0

    def beside(self, host: RankHost) -> int:
        """How many ranks take their memory where this one does, itself among them."""
        return [self._memory(other) for other in self.ranks].count(self._memory(host))

    @property
    def memories(self) -> int:
        """How many separate memories the ranks have."""
        return len({self._memory(host) for host in self.ranks})

    def _memory(self, host: RankHost) -> str | int:
        """Its machine's name, or with NCCL what stands for a GPU of its own."""
        if self.backend is Backend.NCCL:
            return host.rank
        return self.ranks[0].name if host.local else host.name  # rank 0's machine is this one

    @classmethod
    def read(cls, path: Path) -> Hosts:
        """Raises HostsError."""
        try:
            file = Hostfile.from_file(path)
            hosts = cls(
                backend=Backend(file.backend or Backend.RING),
                ranks=tuple(
                    RankHost(h.rank, str(h.ssh_hostname), tuple(h.ips)) for h in file.hosts
                ),
                rdma=tuple(tuple(h.rdma) for h in file.hosts),
                environment=dict(pair.split("=", 1) for pair in file.envs),
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise HostsError(f"can't use {path}: {_reason(path, error)}") from error
        if problem := hosts._problem():
            raise HostsError(f"can't use {path}: {problem}")
        return hosts

    def _problem(self) -> str:
        if not self.ranks:
            return 'it names no hosts; write a list of objects with "ssh" and "ips"'
        if len(self) < 2:
            return f"a model is shared by two ranks or more, and it names {len(self)}"
        for host in self.ranks:
            reached = host.rank == 0 or self.backend not in (Backend.MPI, Backend.NCCL)
            if reached and not host.ips:
                return f'{host} needs "ips": the addresses at which the others reach it'
            for ip in host.ips:
                if not _is_address(ip):
                    return f'{host}: "{ip}" is no IP address'
        if self.backend.in_mlx == Backend.JACCL and any(len(row) != len(self) for row in self.rdma):
            return f'every host needs "rdma": {len(self)} devices, null for itself'
        if free_port(self.address) is None:
            return f"rank 0 runs here, and {self.address} is no address of this machine"
        return ""


def _reason(path: Path, error: Exception) -> str:
    if not path.is_file():
        return "there is no such file"
    cause = error.__cause__ or error  # the library's own message repeats the path
    match cause:
        case JSONDecodeError():
            return f"it is no valid JSON from line {cause.lineno}, column {cause.colno} on"
        case KeyError():
            reason = f"it lacks {cause}"
        case TypeError():
            reason = "a host is an object"
        case _:
            reason = str(cause)
    return f"it is not in mlx.launch's format: {' '.join(reason.split())}"


def free_port(ip: str) -> int | None:
    """A TCP port nobody uses at this machine's address `ip`; None if it has no such address."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((ip, 0))
            return int(probe.getsockname()[1])
    except OSError:
        return None


def _is_address(ip: object) -> bool:
    try:
        ipaddress.ip_address(str(ip))
    except ValueError:
        return False
    return True
