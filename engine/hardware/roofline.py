"""The least a decode step can cost: the bytes it must read and the products it must compute.

Pure arithmetic over sizes; nothing here measures or imports MLX. A step makes one token for each
row, reads every weight once however many rows share it, and each row's own keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property


class Reading(StrEnum):
    """How a decode step reads a tensor."""

    WHOLE = "whole"  # once, whatever the number of rows
    ROW = "row"  # an embedding's lookup: one row for each token
    EXPERTS = "experts"  # only those experts that some token is routed to


@dataclass(frozen=True, slots=True)
class Tensor:
    """One weight tensor. entries: embedding rows or experts, 1 where it is read whole. chosen:
    experts for each token. weights: what one token is multiplied with, at one of `entries`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    reading: Reading = Reading.WHOLE
    entries: int = 1
    chosen: int = 1
    weights: int = 0

    def bytes_read(self, rows: int, expert_share: float | None = None) -> float:
        """Bytes one step of `rows` rows reads of it. expert_share: of the experts, if known; else
        what uniform routing would need."""
        match self.reading:
            case Reading.WHOLE:
                return self.bytes
            case Reading.ROW:
                return self.bytes * min(rows, self.entries) / self.entries
            case Reading.EXPERTS:
                touched = distinct_experts(self.entries, self.chosen, rows)
                share = touched / self.entries if expert_share is None else expert_share
                return self.bytes * share


def distinct_experts(experts: int, chosen: int, rows: int) -> float:
    """Experts at least one of `rows` tokens is expected to need, if routing is uniform."""
    return experts * (1 - (1 - chosen / experts) ** rows)


@dataclass(frozen=True, slots=True)
class BandwidthPoint:
    """What reading `size` bytes over and over reached, in bytes a second: by one stream of
    operations, as the engine runs, and by the best number of streams at a time."""

    size: int
    one_stream: float
    best: float
    streams: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine reached. bandwidth: at least one point, by rising size. multiplications:
    a second, multiply and add together counted as one."""

    bandwidth: tuple[BandwidthPoint, ...]
    multiplications: float

    def at(self, size: float) -> BandwidthPoint:
        """The most that a working set of `size` bytes or more reached: what a larger one can do, a
        smaller one can, though a busy moment may have spoiled its measurement."""
        points = [p for p in self.bandwidth if p.size >= size] or [self.bandwidth[-1]]
        return max(points, key=lambda point: point.best)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The least one step of `rows` rows can take. bytes: read by the step. memory, arithmetic:
    seconds each of them needs by itself; the longer one is the limit."""

    rows: int
    bytes: float
    memory: float
    arithmetic: float

    @property
    def seconds(self) -> float:
        return max(self.memory, self.arithmetic)

    @property
    def rate(self) -> float:
        """Tokens a second over all rows."""
        return self.rows / self.seconds

    @property
    def limit(self) -> str:
        return "memory" if self.memory >= self.arithmetic else "arithmetic"


@dataclass(frozen=True, slots=True)
class Measured:
    """What decoding really reached beside its ceiling. rate: tokens a second over all rows."""

    ceiling: Ceiling
    rate: float

    @property
    def seconds(self) -> float:
        """A step's."""
        return self.ceiling.rows / self.rate

    @property
    def utilisation(self) -> float:
        """The share of the ceiling that was reached."""
        return self.rate / self.ceiling.rate

    @property
    def bandwidth(self) -> float:
        """Bytes a second that were moved."""
        return self.ceiling.bytes / self.seconds


@dataclass(frozen=True)
class Roofline:
    """A model on a machine. kv_bytes_per_token: of one row, all layers. expert_shares: the share of
    the routed experts that so many rows were seen to need."""

    tensors: Sequence[Tensor]
    kv_bytes_per_token: int
    machine: Machine
    expert_shares: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def weights_per_token(self) -> int:
        """Multiplications the weights cost each token; attention over the context is left out."""
        return sum(tensor.weights * tensor.chosen for tensor in self.tensors)

    def step_bytes(self, rows: int, context: int) -> float:
        """Bytes a step of `rows` rows reads, each row holding `context` tokens."""
        share = self.expert_shares.get(rows)
        weights = sum(tensor.bytes_read(rows, share) for tensor in self.tensors)
        return weights + rows * context * self.kv_bytes_per_token

    def ceiling(self, rows: int, context: int) -> Ceiling:
        read = self.step_bytes(rows, context)
        memory = read / self.machine.at(read).best
        arithmetic = rows * self.weights_per_token / self.machine.multiplications
        return Ceiling(rows, read, memory, arithmetic)
