"""A folder of its own for the kernels a process has MLX compile on a Linux CPU.

MLX keeps them in one folder under the system's temporary one, and ends a process that loads what
another is still writing. Here a process takes the first folder that no other holds, by a lock that
the system drops with the process. So there are as many folders as processes ever ran at once, and
what is compiled is found there again.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import platformdirs

_HEADER = struct.Struct("<40x Q 10x HH")
"""Of a 64-bit ELF file: the place of its last part, the size of an entry there and their number."""


@cache
def prepare() -> None:
    """Have MLX compile into a folder of this process. Call it before MLX compiles anything.

    Never raises: where there is no place for it, MLX's shared folder stays.
    """
    if sys.platform != "linux":
        return
    root = platformdirs.user_cache_path("dspark-tui") / "kernels"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.statvfs(root).f_flag & os.ST_NOEXEC:
            return
        folder = _take(root)
        for library in folder.rglob("*.so"):
            if not _whole(library):
                library.unlink()
    except OSError:
        return
    tempfile.gettempdir()  # Python looks only once: its own files stay where they were
    os.environ["TMPDIR"] = str(folder)  # MLX looks before each kernel


def _take(root: Path) -> Path:
    """The first folder in `root` that nobody holds, held until this process ends."""
    for number in count():
        folder = root / str(number)
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        # The compiler MLX starts holds it too: it may outlive a process that is killed.
        os.set_inheritable(lock, True)
        return folder
    raise AssertionError("there is always another number")


def _whole(library: Path) -> bool:
    """Whether its compiler came to the end: a machine that lost its power leaves halves."""
    size = library.stat().st_size
    if size < _HEADER.size:
        return False
    with library.open("rb") as file:
        place, entry, entries = _HEADER.unpack(file.read(_HEADER.size))
    return bool(place) and place + entry * entries <= size
