"""Commands and files in what is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspark_tui.conversation.completion import (
    AttachError,
    Completion,
    UnknownCommandError,
    command,
    complete_command,
    complete_path,
    read_attachment,
)

IDS = ("choose", "choose_all", "edit", "zoom")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "a.md.bak", "docs/deep.md", ".hidden", "with blank.md"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_command_is_completed_as_far_as_it_is_certain() -> None:
    assert complete_command("/z", IDS) == Completion("/zoom")
    assert complete_command("/c", IDS) == Completion("/choose", ("/choose", "/choose_all"))
    assert complete_command("/", IDS) == Completion("/", tuple(f"/{id}" for id in IDS))
    assert complete_command("/x", IDS) is None


def test_a_path_is_completed_through_folders_to_a_file(folder: Path) -> None:
    assert complete_path("@d") == Completion("@docs/")
    assert complete_path("@docs/") == Completion("@docs/deep.md", file=Path("docs/deep.md"))
    assert complete_path("@a") == Completion("@a.md", ("@a.md", "@a.md.bak"))
    assert complete_path("@a.md") == Completion("@a.md", file=Path("a.md"))
    assert complete_path("@.h") == Completion("@.hidden", file=Path(".hidden"))
    absolute = complete_path(f"@{folder}/do")
    assert absolute is not None
    assert absolute.text == f"@{folder}/docs/"


def test_a_home_folder_may_be_written_as_people_do(isolated_home: Path) -> None:
    (isolated_home / "mine.txt").write_text("x")
    assert complete_path("@~/mi") == Completion("@~/mine.txt", file=isolated_home / "mine.txt")


@pytest.mark.parametrize("word", ["@x", "@with", "@no/such/", "@a.md/", "@docs/x"])
def test_where_nothing_fits_nothing_is_completed(folder: Path, word: str) -> None:
    assert complete_path(word) is None


def test_an_attached_file_is_its_exact_text(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes("é\r\n\tx\n".encode())
    assert read_attachment(file) == "é\r\n\tx\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * 1_000_001, "x.txt is larger than 1 MB"),
        (b"\xff", "x.txt is not UTF-8 text"),
        (b"a\0b", "x.txt is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "x.txt"
    file.write_bytes(content)
    with pytest.raises(AttachError, match=words):
        read_attachment(file)
    with pytest.raises(AttachError, match="can't be read"):
        read_attachment(tmp_path)


def test_a_command_is_a_slash_and_an_action() -> None:
    assert command("/zoom", IDS) == command("/zoom \n", IDS) == "zoom"
    for text in ("zoom", " /zoom", "/usr/bin", "/zoom in", "/Zoom", "/", "a\n/zoom"):
        assert command(text, IDS) is None
    with pytest.raises(UnknownCommandError, match=r"no action is called /zom \(/zoom\?\)"):
        command("/zom", IDS)
    with pytest.raises(UnknownCommandError, match="/xyzzy; a blank before it sends it"):
        command("/xyzzy", IDS)
