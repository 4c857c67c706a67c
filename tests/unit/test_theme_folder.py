"""Which theme files were edited."""

from __future__ import annotations

import os
from pathlib import Path

from dspark_tui.appearance.theme_folder import ThemeFolder


def write(file: Path, text: str, time: int) -> None:
    file.write_text(text)
    os.utime(file, (time, time))


def test_a_file_counts_once_it_was_left_alone_and_only_once(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    write(old, "a", 1)
    folder = ThemeFolder(tmp_path)
    assert folder.changed() == []
    write(new, "half", 2)
    assert folder.changed() == []
    write(new, "half and the rest", 3)
    assert folder.changed() == []
    assert folder.changed() == [new]
    assert folder.changed() == []


def test_a_folder_that_comes_later_and_files_that_go(tmp_path: Path) -> None:
    folder = ThemeFolder(tmp_path / "themes")
    assert folder.changed() == []
    file = tmp_path / "themes" / "mine.toml"
    file.parent.mkdir()
    write(file, "a", 1)
    file.with_name("notes.txt").touch()
    folder.changed()
    assert folder.changed() == [file]
    file.unlink()
    assert folder.changed() == []
