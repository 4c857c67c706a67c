"""What the workbench remembers by itself between runs. Losing it is harmless."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from dspark_tui.paths import write_atomically

log = logging.getLogger(__name__)


class UiState(Struct):
    """theme and panel: "" follows the settings and the size of the terminal."""

    theme: str = ""
    panel: str = ""
    target: str = ""

    @classmethod
    def load(cls, path: Path) -> UiState:
        """The saved state, or a fresh one when there is none that can be read."""
        try:
            saved = tomllib.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValueError) as error:
            log.warning("state file %s not read: %s", path, error)
            return cls()
        known = saved.keys() & {*cls.__struct_fields__}
        return cls(**{key: saved[key] for key in known if isinstance(saved[key], str)})

    def save(self, path: Path) -> None:
        """Raises OSError when the folder can't be written."""
        import tomli_w

        write_atomically(path, tomli_w.dumps(asdict(self)))
