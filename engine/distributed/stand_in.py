"""The process that `mpirun` takes for rank 0; see `mpi`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from engine.distributed import mpi, token
from engine.distributed.channel import Channel, ChannelClosed
from engine.distributed.messages import Hello
from engine.distributed.versions import versions
from engine.models.errors import one_line


def run(args: argparse.Namespace) -> None:
    """Lend rank 0 this process's place, and stay for as long as it runs."""
    try:
        channel = Channel.join((args.leader, args.port), token.given())
    except OSError as error:
        sys.exit(f"can't reach rank 0 at {args.leader}: {one_line(error)}")
    place = mpi.lent(os.environ)
    with contextlib.suppress(ChannelClosed):
        channel.send(Hello(args.rank, os.getpid(), (), versions(), place))
        channel.receive()
