"""MLX's communication group, and a model's share of it. Imports MLX."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from math import gcd
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import CacheList, make_prompt_cache

from engine.distributed import mpi
from engine.distributed.division import Division
from engine.distributed.hosts import Backend, Hosts
from engine.distributed.messages import Job
from engine.models.errors import ModelError, one_line

CONNECT_SECONDS = 60
"""How long the ranks, all of them ready, may take to connect; then the process ends."""

MPI_LIBRARY = "MLX_MPI_LIBNAME"
"""Names Open MPI's library to MLX."""

MISSING = {
    Backend.MPI: f"it finds no Open MPI; install that, or name its library in {MPI_LIBRARY}",
    Backend.NCCL: "that takes MLX for CUDA; install dspark-tui[cuda] where there is an NVIDIA GPU",
}
"""Why MLX lacks a backend, where that can be mended."""


def require(backend: Backend) -> None:
    """Raises ModelError where MLX can't use it on this machine."""
    if backend is Backend.MPI and MPI_LIBRARY not in os.environ:
        # MLX looks but once, and for a name that only packages for developers have.
        os.environ[MPI_LIBRARY] = mpi.library()
    if not mx.distributed.is_available(backend.in_mlx):
        why = MISSING.get(backend)
        raise ModelError(f"MLX has no {backend} backend on this machine{f': {why}' if why else ''}")


def rendezvous(
    hosts: Hosts, ports: Sequence[Sequence[int]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Variables by which MLX's ranks find each other, and variables that name a file of this
    content. ports: for each rank one at each of its addresses."""
    match hosts.backend:
        case Backend.RING:
            places = [
                [f"{ip}:{port}" for ip, port in zip(host.ips, free, strict=True)]
                for host, free in zip(hosts.ranks, ports, strict=True)
            ]
            return {}, {"MLX_HOSTFILE": json.dumps(places)}
        case Backend.MPI:
            return {MPI_LIBRARY: os.environ[MPI_LIBRARY]}, {}  # mpirun has told them the rest
        case Backend.NCCL:
            place = {"NCCL_HOST_IP": hosts.address, "NCCL_PORT": str(ports[0][0])}
            return {**place, "MLX_WORLD_SIZE": str(len(hosts))}, {}
    variables = {"MLX_JACCL_COORDINATOR": f"{hosts.address}:{ports[0][0]}"}
    if hosts.backend is Backend.JACCL_RING:
        variables["MLX_JACCL_RING"] = "1"
    return variables, {"MLX_IBV_DEVICES": json.dumps(hosts.rdma)}


class Share:
    """One rank's share of a model. ready: called before the ranks connect.

    layers: how many each rank has of a pipeline, as far as that makes them differ: else one each.
    """

    def __init__(self, rank: int, job: Job, ready: Callable[[], object]) -> None:
        self.ranks = job.ranks
        self.memories = job.memories
        self.layers = [1] * job.ranks
        self.rank = rank
        self._job = job
        self._ready = ready
        self._group: mx.distributed.Group | None = None

    def apply(self, model: nn.Module, config: dict[str, Any], precision: str) -> None:
        """Connect to the other ranks and keep what is this rank's. Raises ModelError."""
        self._ready()
        self._group = _join(self.rank, self._job)
        try:
            if self._job.division is Division.TENSOR:
                model.shard(self._group)
            else:
                model.model.pipeline(self._group)
                self.layers = _layers(model, self._group)
        except ValueError as error:
            raise ModelError(f"{self.ranks} ranks can't share it: {one_line(error)}") from error

    def agreed(self, tokens: mx.array) -> mx.array:
        """Rank 0's tokens, on every rank: other machines may round a near-tie another way."""
        # A product, though with zero: all ranks have to run the whole step before they meet here.
        mine = tokens if self.rank == 0 else tokens * 0
        return mx.distributed.all_sum(mine, group=self._group)


def _layers(model: nn.Module, group: mx.distributed.Group) -> list[int]:
    """How many layers each rank has. Raises ValueError where they don't keep the same kinds of
    state in the same proportion: then rows would not take proportional memory on all ranks, nor
    could all of them go back to the same tokens."""
    kinds = Counter(map(_kind, make_prompt_cache(model)))
    parts = gcd(*kinds.values())
    mixture = sorted((kind, count // parts) for kind, count in kinds.items())
    mine = mx.array([kinds.total(), zlib.crc32(repr(mixture).encode())], dtype=mx.uint32)
    layers, mixtures = mx.distributed.all_gather(mine[None], group=group).T
    if bool((mixtures != mixtures[0]).any()):
        raise ValueError("as a pipeline their layers would keep different kinds of state")
    return cast(list[int], layers.tolist())


def _kind(cache: Any) -> str:
    """What decides how a layer's state is kept."""
    if isinstance(cache, CacheList):
        return f"{[_kind(child) for child in cache.caches]}"
    return f"{type(cache).__name__} {getattr(cache, 'max_size', '')} {getattr(cache, 'keep', '')}"


def _join(rank: int, job: Job) -> mx.distributed.Group:
    """Connect to the other ranks; waits for all of them. Raises ModelError."""
    with tempfile.TemporaryDirectory(prefix="dspark-ranks-") as folder:
        os.environ |= {**job.environment, "MLX_RANK": str(rank)}
        for name, content in job.files.items():
            path = Path(folder) / name
            path.write_text(content)
            os.environ[name] = str(path)
        require(job.backend)
        # MLX waits for the others without letting any Python run, not even for a signal.
        faulthandler.dump_traceback_later(CONNECT_SECONDS, exit=True)
        try:
            group = mx.distributed.init(strict=True, backend=job.backend.in_mlx)
        except RuntimeError as error:
            raise ModelError(f"the ranks can't connect: {one_line(error)}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
    if job.backend is Backend.MPI:
        # With its last reference MLX ends MPI, which waits for all ranks: also for lost ones.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
    return group
