"""The database: what is saved comes back, what is deleted is gone, and no file is ever lost."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dspark_tui.storage import schema as store_schema
from dspark_tui.storage.rows import PaneRow, RequestRow, Row, TurnRow, WorkspaceRow
from dspark_tui.storage.store import Store

SECRET = "xylophone-heist-4711"


def turn(id: int, prompt: str = "p", answer: str = "a", **changes: object) -> TurnRow:
    values: dict[str, object] = {
        "pane": 10, "parent": None, "status": "done", "problem": "", "origin": "", "seed": None,
        "finished": True,
    }  # fmt: skip
    return TurnRow(id=id, prompt=prompt, answer=answer, **(values | changes))  # type: ignore[arg-type]


def request(id: int, turn: int) -> RequestRow:
    return RequestRow(
        id, turn, "r1", "m", "{}", 5.0, 0.1, 0.2, 0.9, 1.0, 12, 3, 40, "stop", "Be brief.",
    )  # fmt: skip


def workspace(id: int = 1, name: str = "", used: float = 1.0) -> list[Row]:
    """With a pane whose id is ten times as large."""
    return [WorkspaceRow(id, name, used, "{}"), PaneRow(10 * id, id, 1, '{"name": "n"}', None)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not yet" / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store.open(path)
    assert opened.problem == ""
    yield opened
    opened.close()


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


def test_rows_come_back_as_they_were_saved(store: Store, path: Path) -> None:
    rows = [*workspace(), turn(100, seed=str(2**64 - 1)), turn(101, parent=100), request(7, 101)]
    store.save(rows)
    store.save([turn(101, answer="longer", parent=100)])
    again = Store.open(path)
    stored = again.load(1)
    again.close()
    assert stored is not None
    assert [stored.workspace, *stored.panes] == rows[:2]
    assert list(stored.turns) == [rows[2], turn(101, answer="longer", parent=100)]
    assert list(stored.requests) == [rows[4]]
    assert store.load(2) is None


def test_a_save_is_whole_or_not_at_all(store: Store) -> None:
    store.save(workspace())
    with pytest.raises(sqlite3.IntegrityError):
        store.save([turn(100), turn(101, pane=999)])
    stored = store.load(1)
    assert stored is not None
    assert stored.turns == []


def test_the_order_of_rows_within_a_save_does_not_matter(store: Store) -> None:
    store.save([request(1, 100), turn(100), *reversed(workspace())])
    assert store.load(1) is not None


def test_text_is_stored_byte_for_byte(store: Store) -> None:
    odd = 'a\0b "q" \x1b[31m ﷽ 👩‍👩‍👧 \r\n\t\u202e =1+1'
    store.save([*workspace(), turn(100, odd, odd)])
    stored = store.load(1)
    assert stored is not None
    assert (stored.turns[0].prompt, stored.turns[0].answer) == (odd, odd)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("rainbow", [100]),
        ("RAINB", [100]),
        ("bow", [101, 100]),
        ("rainbow light", [100]),
        ("rainbow nothing", []),
        ("水滴后", [102]),
        ("光线", [102]),
        ("ab", [101]),
        ('"quoted', [103]),
        ("na*me(", [103]),
        ("  ", []),
    ],
)
def test_search_finds_every_word_anywhere(store: Store, query: str, found: list[int]) -> None:
    store.save([
        *workspace(name="optics"),
        turn(100, "why a Rainbow", "light bends"),
        turn(101, "a bow", "lab coat"),
        turn(102, "光线进入水滴后", "折射"),
        turn(103, 'say "quoted', "na*me("),
    ])  # fmt: skip
    hits = store.search(query)
    assert [hit.turn for hit in hits] == found
    assert all((hit.session, hit.number) == ("optics", 1) for hit in hits)


def test_repeats_of_a_prompt_are_found_by_their_answers_and_by_the_prompt_once(
    store: Store,
) -> None:
    answers = ["red", "green", "red"]
    repeats = [turn(101 + n, "a colour", a, origin="repeat") for n, a in enumerate(answers)]
    store.save([*workspace(), turn(100, "a colour", "blue"), *repeats])
    store.save([turn(200, "a colour", "grey", parent=100, origin="repeat")])
    assert [hit.turn for hit in store.search("colour")] == [200, 103, 100]
    assert [hit.turn for hit in store.search("colour red")] == [103, 101]
    assert store.prompts() == ["a colour"]
    store.save([turn(300, "never sent", origin="repeat")])
    assert store.prompts() == ["a colour"]


def test_an_answer_is_found_once_it_is_finished_and_as_it_is_then(store: Store) -> None:
    store.save([*workspace(), turn(100, answer="begi", status="running", finished=False)])
    assert store.search("begi") == []
    store.save([turn(100, answer="beginning")])
    assert len(store.search("beginning")) == 1
    store.save([turn(100, answer="beginning", status="waiting", finished=False)])
    store.save([turn(100, answer="beginning and end")])
    assert len(store.search("beginning and end")) == 1
    store.save([turn(100, answer="another")])
    assert store.search("beginning") == []


def test_what_was_being_received_is_marked_and_found(store: Store) -> None:
    store.save([*workspace(), turn(100, answer="partial", status="running", finished=False)])
    store.save([*workspace(2), turn(200, pane=20)])
    assert store.unfinished() == [1]
    store.mark_interrupted(1)
    assert store.unfinished() == []
    stored = store.load(1)
    assert stored is not None
    assert (stored.turns[0].status, stored.turns[0].answer) == ("interrupted", "partial")
    assert len(store.search("partial")) == 1


def test_sessions_are_listed_by_name_or_first_prompt(store: Store) -> None:
    store.save([*workspace(1, used=1.0), turn(100, "first words"), turn(101, "later words")])
    store.save(workspace(2, "named", used=2.0))
    assert [(w.id, w.name, w.panes, w.turns) for w in store.listed()] == [
        (2, "named", 1, 0),
        (1, "first words", 1, 2),
    ]
    assert store.latest() == 2
    store.rename(1, "renamed")
    assert store.listed()[1].name == "renamed"


def test_prompts_are_recalled_once_each_and_newest_last(store: Store) -> None:
    store.save([*workspace(), *(turn(100 + n, p) for n, p in enumerate(["a", "b", "a", "c"]))])
    assert store.prompts() == ["b", "a", "c"]


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_deleted_leaves_no_bytes(store: Store, path: Path, whole: bool) -> None:
    store.save([*workspace(1, f"named {SECRET}"), PaneRow(11, 1, 2, f'"{SECRET}"', None)])
    store.save([turn(100 + n, f"{SECRET} {n}", f"{SECRET} " * 400, pane=11) for n in range(50)])
    store.save([*workspace(2), turn(200, "kept on purpose", pane=20)])
    assert SECRET.encode() in bytes_on_disk(path)
    if whole:
        store.delete_workspace(1)
    else:
        store.rename(1, "harmless")
        store.delete_pane(11)
    first = True
    while store.tidy(first=first):
        first = False
    assert SECRET.encode() not in bytes_on_disk(path)
    assert store.search(SECRET) == []
    assert b"kept on purpose" in bytes_on_disk(path)
    assert len(store.search("purpose")) == 1


def test_the_index_forgets_the_pieces_of_deleted_words(store: Store, path: Path) -> None:
    store.save([*workspace(), turn(100, "qzxj"), turn(101, "common")])
    store.save([*workspace(2), turn(200, "common", pane=20)])
    store.delete_workspace(1)
    first = True
    while store.tidy(first=first):
        first = False
    raw = sqlite3.connect(path)
    blocks = b"".join(block for (block,) in raw.execute("select block from words_data"))
    raw.close()
    assert b"qzx" not in blocks
    assert b"com" in blocks


def test_a_newer_version_s_file_is_only_read(path: Path) -> None:
    store = Store.open(path)
    store.save([*workspace(), turn(100)])
    store.close()
    raw = sqlite3.connect(path)
    raw.execute(f"pragma user_version = {store_schema.VERSION + 1}")
    raw.close()
    before = path.read_bytes()
    newer = Store.open(path)
    assert "newer dspark-tui" in newer.problem
    assert "\n" not in newer.problem
    newer.save([turn(101)])
    newer.delete_workspace(1)
    stored = newer.load(1)
    newer.close()
    assert stored is not None
    assert len(stored.turns) == 1
    assert path.read_bytes() == before


def as_once(path: Path) -> None:
    """Make the file one of the first version."""
    raw = sqlite3.connect(path)
    raw.execute("alter table requests drop column system")
    raw.execute("pragma user_version = 1")
    raw.close()


def test_an_older_version_s_file_is_brought_up_to_date(path: Path) -> None:
    store = Store.open(path)
    store.save([*workspace(), turn(100), request(7, 100)])
    store.close()
    as_once(path)
    for more in (8, 9):
        store = Store.open(path)
        assert store.problem == ""
        store.save([request(more, 100)])
        stored = store.load(1)
        store.close()
    assert stored is not None
    assert [row.system for row in stored.requests] == [None, "Be brief.", "Be brief."]


def test_an_older_version_s_file_that_can_t_be_changed_is_read_all_the_same(
    unprivileged: Path,
) -> None:
    path = unprivileged / "data" / "sessions.db"
    store = Store.open(path)
    store.save([*workspace(), turn(100), request(7, 100)])
    store.close()
    as_once(path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    store = Store.open(path)
    assert not store.writable
    stored = store.load(1)
    store.close()
    path.parent.chmod(0o755)
    assert stored is not None
    assert [row.system for row in stored.requests] == [None]


def test_a_newer_version_with_other_tables_starts_empty(path: Path) -> None:
    path.parent.mkdir()
    raw = sqlite3.connect(path)
    raw.execute(f"pragma application_id = {store_schema.APPLICATION}")
    raw.execute(f"pragma user_version = {store_schema.VERSION + 1}")
    raw.execute("create table sessions (x)")
    raw.close()
    store = Store.open(path)
    assert "newer dspark-tui" in store.problem
    assert store.latest() is None
    store.close()


@pytest.mark.parametrize("content", [b"not a database at all, " * 100, b"SQLite format 3\0" * 300])
def test_a_broken_file_is_moved_aside_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    for number in (1, 2):
        store = Store.open(path)
        aside = path.with_name(f"sessions.db.broken-{number}")
        assert aside.name in store.problem
        assert "\n" not in store.problem
        assert aside.read_bytes() == content
        store.save(workspace())
        store.close()
        path.write_bytes(content)


def test_another_program_s_database_is_moved_aside(path: Path) -> None:
    path.parent.mkdir()
    raw = sqlite3.connect(path)
    raw.execute("create table theirs (x)")
    raw.close()
    store = Store.open(path)
    assert "another program" in store.problem
    store.close()
    raw = sqlite3.connect(path.with_name("sessions.db.broken-1"))
    assert raw.execute("select count(*) from theirs").fetchone() == (0,)
    raw.close()


def test_where_no_folder_can_be_made_it_runs_from_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store.open(tmp_path / "file" / "sessions.db")
    assert "can't be written" in store.problem
    store.save([*workspace(), turn(100, "in memory")])
    assert len(store.search("memory")) == 1
    store.close()


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """An empty folder, with permissions taken seriously even for root."""
    with tempfile.TemporaryDirectory() as name:
        folder, root = Path(name), os.geteuid() == 0
        folder.chmod(0o755)
        if root:
            os.chown(folder, 65534, -1)
            os.seteuid(65534)
        yield folder
        folder.chmod(0o755)
        if root:
            os.seteuid(0)


def test_a_read_only_folder_can_still_be_read(unprivileged: Path) -> None:
    path = unprivileged / "data" / "sessions.db"
    store = Store.open(path)
    store.save([*workspace(), turn(100, "still readable")])
    store.close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    store = Store.open(path)
    assert "can't be written" in store.problem
    assert not store.writable
    assert len(store.search("still readable")) == 1
    store.close()
    path.parent.chmod(0o755)


def test_two_stores_on_one_file_see_each_other_s_rows(store: Store, path: Path) -> None:
    other = Store.open(path)
    store.save([*workspace(1), turn(100)])
    other.save([*workspace(2), turn(200, pane=20)])
    assert len(store.listed()) == len(other.listed()) == 2
    other.close()
