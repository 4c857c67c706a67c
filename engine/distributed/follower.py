"""A rank other than rank 0: a process that loads its share and repeats rank 0's loop."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from engine.distributed import token
from engine.distributed.channel import Channel, ChannelClosed
from engine.distributed.division import of_layers
from engine.distributed.hosts import Backend, free_port
from engine.distributed.messages import Beat, Begin, Failed, Hello, Job, Joining, Loaded
from engine.distributed.record import Record
from engine.distributed.versions import digest, versions
from engine.distributed.vital import BEAT_SECONDS
from engine.models import catalog
from engine.models.errors import ModelError, one_line

if TYPE_CHECKING:
    from engine.distributed.group import Share
    from engine.models.load import LoadedModel

log = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> NoReturn:
    """Join rank 0, work until it stops or is gone, and end the process."""
    try:
        channel = Channel.join((args.leader, args.port), token.given())
    except OSError as error:
        sys.exit(f"can't reach rank 0 at {args.leader}: {one_line(error)}")
    try:
        ports = tuple(free_port(ip) for ip in args.ips)
        channel.send(Hello(args.rank, os.getpid(), ports, versions()))
        _work(args.rank, channel)
    except ChannelClosed:
        _end(1)
    except Exception as error:
        log.exception("rank %d failed", args.rank)
        channel.send(Failed(f"failed: {one_line(error)}"))
        _end(1)
    _end(0)


def _work(rank: int, channel: Channel) -> None:
    record = Record()
    listener = threading.Thread(target=_listen, args=[channel, record], daemon=True)
    listener.start()
    threading.Thread(target=_beat, args=[channel, record], daemon=True).start()
    # MLX binds its BLAS when it is first imported.
    from engine.hardware import blas, kernels

    blas.prepare()
    kernels.prepare()
    from engine.distributed import group
    from engine.distributed.loops import FollowingLoop
    from engine.hardware import device

    job = record.take()
    assert isinstance(job, Job)
    share = group.Share(rank, job, lambda: channel.send(Joining()))
    loaded = _load(job, share)
    channel.send(Loaded(device.free_bytes()))
    begin = record.take()
    assert isinstance(begin, Begin)
    settings = of_layers(begin.settings, share.layers[rank])
    FollowingLoop(loaded, settings, record).follow()
    if job.backend is Backend.MPI:
        listener.join()  # mpirun ends all when one leaves, and rank 0 may still answer


def _load(job: Job, share: Share) -> LoadedModel:
    from engine.models.load import load

    ref = catalog.resolve(job.model)
    folder = catalog.ensure(ref)
    if digest(folder) != job.digest:
        raise ModelError(f"its {folder} is not the model of rank 0")
    return load(folder, ref.name, job.precision, kv_bits=job.kv_bits, sharding=share)


def _listen(channel: Channel, record: Record) -> None:
    """Take the record; where it ends early there is nobody to work for."""
    try:
        while True:
            record.add(channel.receive())
    except ChannelClosed:
        _end(1)


def _beat(channel: Channel, record: Record) -> None:
    while True:
        time.sleep(BEAT_SECONDS)
        try:
            channel.send(Beat(record.place))
        except ChannelClosed:
            return  # the listener ends the process


def _end(code: int) -> NoReturn:
    """At once: another thread may wait for ever for a rank that is gone."""
    logging.shutdown()
    os._exit(code)
