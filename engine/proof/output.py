"""Whether a file can be written, found out before there is anything to lose."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile


def refusal(path: Path) -> str:
    """Why nothing can be written there, "" if it can. Everything is left as it is.

    By trying: permissions tell root nothing, nor do they know of /proc.
    """
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    try:
        if path.is_file() or path.is_dir():
            path.open("ab").close()
        elif not path.exists():
            TemporaryFile(dir=path.parent).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
