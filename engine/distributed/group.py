"""MLX's communication group, and a model's share of it. Imports MLX."""

from __future__ import annotations

import faulthandler
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.distributed.hosts import Hosts
from engine.distributed.messages import Job
from engine.models.errors import ModelError, one_line

CONNECT_SECONDS = 60
"""How long the ranks, all of them ready, may take to connect; then the process ends."""

DIVIDED = {
    "num_attention_heads": "attention heads",
    "num_key_value_heads": "key/value heads",
    "intermediate_size": "values between the MLP's layers",
    "moe_intermediate_size": "values between an expert's layers",
    "linear_num_key_heads": "key heads of linear attention",
    "linear_num_value_heads": "value heads of linear attention",
}
"""Entries of config.json of which each rank takes an equal share."""


def check(model: nn.Module, config: dict[str, Any], ranks: int) -> None:
    """Refuse a model that can't be shared by so many ranks. Reads no weights. Raises ModelError."""
    family = config["model_type"]
    if not hasattr(model, "shard"):
        pipeline = hasattr(getattr(model, "model", None), "pipeline")
        only = "only as a pipeline, which is not supported here" if pipeline else "in no way"
        raise ModelError(f"{family} can't be shared by ranks: mlx-lm divides it {only}")
    sizes = {**config, **(config.get("text_config") or {})}
    for key, what in DIVIDED.items():
        count = sizes.get(key)
        if isinstance(count, int) and count % ranks:
            raise ModelError(
                f"{ranks} ranks can't share this {family}: its {count} {what} "
                f"are not divisible by {ranks}"
            )


def rendezvous(
    hosts: Hosts, ports: Sequence[Sequence[int]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Variables by which MLX's ranks find each other, and variables that name a file of this
    content. ports: for each rank one at each of its addresses."""
    if hosts.backend == "ring":
        places = [
            [f"{ip}:{port}" for ip, port in zip(host.ips, free, strict=True)]
            for host, free in zip(hosts.ranks, ports, strict=True)
        ]
        return {}, {"MLX_HOSTFILE": json.dumps(places)}
    variables = {"MLX_JACCL_COORDINATOR": f"{hosts.address}:{ports[0][0]}"}
    if hosts.backend == "jaccl-ring":
        variables["MLX_JACCL_RING"] = "1"
    return variables, {"MLX_IBV_DEVICES": json.dumps(hosts.rdma)}


class Share:
    """One rank's share of a model. ready: called before the ranks connect."""

    def __init__(self, rank: int, job: Job, ready: Callable[[], object]) -> None:
        self.ranks = job.ranks
        self._rank = rank
        self._job = job
        self._ready = ready
        self._group: mx.distributed.Group | None = None

    def apply(self, model: nn.Module, config: dict[str, Any], precision: str) -> None:
        """Connect to the other ranks and keep what is this rank's. Raises ModelError."""
        self._ready()
        self._group = _join(self._rank, self._job)
        try:
            model.shard(self._group)
        except ValueError as error:
            raise ModelError(f"{self.ranks} ranks can't share it: {one_line(error)}") from error

    def agreed(self, tokens: mx.array) -> mx.array:
        """Rank 0's tokens, on every rank: other machines may round a near-tie another way."""
        # A product, though with zero: all ranks have to run the whole step before they meet here.
        mine = tokens if self._rank == 0 else tokens * 0
        return mx.distributed.all_sum(mine, group=self._group)


def _join(rank: int, job: Job) -> mx.distributed.Group:
    """Connect to the other ranks; waits for all of them. Raises ModelError."""
    backend = job.backend.removesuffix("-ring")
    if not mx.distributed.is_available(backend):
        raise ModelError(f"MLX has no {backend} backend on this machine")
    with tempfile.TemporaryDirectory(prefix="dspark-ranks-") as folder:
        os.environ |= {**job.environment, "MLX_RANK": str(rank)}
        for name, content in job.files.items():
            path = Path(folder) / name
            path.write_text(content)
            os.environ[name] = str(path)
        # MLX waits for the others without letting any Python run, not even for a signal.
        faulthandler.dump_traceback_later(CONNECT_SECONDS, exit=True)
        try:
            return mx.distributed.init(strict=True, backend=backend)
        except RuntimeError as error:
            raise ModelError(f"the ranks can't connect: {one_line(error)}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
