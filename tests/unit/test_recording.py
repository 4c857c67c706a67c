"""Recordings: what is written comes back, and what can't be read says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.events import Event, Queued, Step, Warning, decode, encode
from engine.proof.recording import CUT_OFF, VERSION, Recorder, RecordingError, read
from engine.server import last_run
from engine.state import EngineState
from engine.types import FinishReason
from tests.tui.burst import NOW, START, burst, lone_request, snapshot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def record(path: Path, events: list[Event]) -> None:
    with Recorder(path) as recorder:
        for event in events:
            recorder.write(event)


def whole() -> list[Event]:
    """A request that came to its end."""
    return [snapshot(), *lone_request(START, 40, 2.0)]


def test_what_was_written_is_what_is_read(path: Path) -> None:
    record(path, whole())
    recording = read(path)
    assert list(recording.events) == whole()
    assert recording.complete
    assert recording.created > 1_700_000_000


def test_each_line_is_the_event_as_the_wire_has_it(path: Path) -> None:
    record(path, whole())
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["version"] == VERSION
    assert lines == json.loads(json.dumps([encode(event) for event in whole()]))


@pytest.mark.parametrize("closed", [True, False])
def test_requests_without_an_end_are_cut_off_where_the_recording_ends(
    path: Path, closed: bool
) -> None:
    recorder = Recorder(path)
    for event in burst():
        recorder.write(event)
    if closed:
        recorder.close()
    state = EngineState()
    events = read(path).events
    for event in events:
        state.apply(event)
    recorder.close()
    assert events[: len(burst())] == tuple(burst())
    ended = {r.request: (r.reason, r.finished) for r in state.requests.values()}
    assert ended["r1"] == (FinishReason.STOP, START + 14.0)
    assert {ended[id] for id in ("r3", "r4", "r5", "r6")} == {(FinishReason.CANCELLED, NOW)}
    warnings = [event for event in events if isinstance(event, Warning)]
    assert [warning.request for warning in warnings] == ["r3", "r4", "r5", "r6"]
    assert {w.message for w in warnings} == {"cut off: the recording ended at 14.5 s"}
    assert {warning.code for warning in warnings} == {CUT_OFF}


def test_events_are_on_disk_at_once_and_a_cut_last_line_is_dropped(path: Path) -> None:
    recorder = Recorder(path)
    recorder.write(snapshot())
    recorder.write(Step(1001.0, "decode", 1, {"r1": 1}, 50.0))
    assert read(path).complete
    path.write_bytes(path.read_bytes()[:-9])
    recording = read(path)
    assert (list(recording.events), recording.complete) == ([snapshot()], False)
    recorder.close()


def test_events_of_a_newer_engine_are_left_out(path: Path) -> None:
    record(path, [snapshot()])
    with path.open("a") as file:
        file.write('{"event":"levitated","time":1.0}\n')
    assert list(read(path).events) == [snapshot()]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is no recording; --record makes one"),
        ("hello\n", "is no recording"),
        ("[1]\n", "is no recording"),
        ('{"event":"step"}\n', "is no recording"),
        ('{"recording":"dspark-tui events","version":99,"created":1}\n', "newer version"),
        ('{"recording":"dspark-tui events","version":1,"created":1}\n', "holds no events"),
    ],
)
def test_other_files_are_told_from_recordings(path: Path, content: str, words: str) -> None:
    path.write_text(content)
    with pytest.raises(RecordingError) as caught:
        read(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "7",
        '{"event":"step"}',
        '{"event":"queued","time":1}',
        '{"event":"status","time":1,"status":"odd"}',
        '{"event":"step","time":"1","kind":"decode","width":1,"tokens":{},"milliseconds":1}',
    ],
)
def test_a_damaged_line_is_named(path: Path, line: str) -> None:
    record(path, [snapshot()])
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(RecordingError, match="line 3 is damaged"):
        read(path)


def test_files_that_cannot_be_opened_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="can't record to"):
        Recorder(tmp_path / "no" / "such" / "folder")
    with pytest.raises(RecordingError, match="can't read"):
        read(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordingError, match="not text"):
        read(tmp_path / "binary")


@pytest.mark.parametrize("content", [b"my notes\n", b"\xff\xfe", b"[1]"])
def test_what_is_there_is_not_written_over(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="there already: name another file, or remove that"):
        Recorder(path)
    assert path.read_bytes() == content


def test_a_recording_is_not_written_over_an_empty_file_is(path: Path) -> None:
    path.touch()
    record(path, whole())
    with pytest.raises(RecordingError, match="there already"):
        record(path, burst())
    assert list(read(path).events) == whole()


def test_a_full_disk_ends_the_recording_and_nothing_else() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with Recorder(full) as recorder:
        for event in burst():
            recorder.write(event)
    assert "the recording to /dev/full ended: No space left" in recorder.problem


def test_events_survive_the_codec_with_awkward_text(path: Path) -> None:
    event = Queued(1.0, "r\n1", "a \x1b[31m ☺ \u2028", 1, 1, 1)
    record(path, [event])
    assert read(path).events[0] == event
    assert decode(encode(event)) == event


def test_the_last_run_is_kept_whole_and_losing_it_is_harmless(tmp_path: Path) -> None:
    assert last_run.load(tmp_path) is None
    last_run.save(snapshot(), tmp_path)
    assert last_run.load(tmp_path) == snapshot()
    assert [file.name for file in tmp_path.iterdir()] == [last_run.NAME]
    (tmp_path / last_run.NAME).write_text('{"event":"snapshot"}')
    assert last_run.load(tmp_path) is None
    last_run.save(snapshot(), tmp_path / "missing")
