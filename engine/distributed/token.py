"""What a rank shows rank 0 before anything it sends is unpickled."""

from __future__ import annotations

import os
import secrets
import sys

BYTES = 32

VARIABLE = "DSPARK_RANK_TOKEN"
"""Holds it for ranks that get no standard input of their own."""


def new() -> bytes:
    return secrets.token_hex(BYTES // 2).encode()


def given() -> bytes:
    """This rank's, from its environment or standard input: other users can read neither."""
    token = os.environ.pop(VARIABLE, None)
    return sys.stdin.buffer.read(BYTES) if token is None else token.encode()
