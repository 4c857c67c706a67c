"""The user's folder of theme files, as they are edited."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, int]
"""Time of the last change in ns, and size in bytes."""


class ThemeFolder:
    """Notices files that were written since the last look; a missing folder has none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._stamps()
        self._taken = dict(self._seen)

    def changed(self) -> list[Path]:
        """Files to load again: changed since they were last taken, but not since the last look.

        An editor may still be writing a file that changed between two looks.
        """
        now = self._stamps()
        settled = [
            file
            for file, stamp in now.items()
            if self._seen.get(file) == stamp != self._taken.get(file)
        ]
        self._seen = now
        self._taken.update({file: now[file] for file in settled})
        return settled

    def _stamps(self) -> dict[Path, Stamp]:
        found = {}
        for file in sorted(self._folder.glob("*.toml")):
            try:
                status = file.stat()
            except OSError:
                continue  # deleted meanwhile
            found[file] = (status.st_mtime_ns, status.st_size)
        return found
