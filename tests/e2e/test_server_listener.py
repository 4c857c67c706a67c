"""Which addresses are taken, and which are refused with one line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from engine.server.listener import Listener, ListenError, listen
from engine.server.options import ServeOptions


def options(
    host: str = "127.0.0.1",
    port: int = 0,
    socket: Path | None = None,
    api_key: str | None = None,
) -> ServeOptions:
    return ServeOptions(
        model=None,
        max_batch=1,
        queue=1,
        precision="auto",
        host=host,
        port=port,
        socket=socket,
        api_key=api_key,
        parent_pipe=False,
        log=None,
    )


def refusal(wanted: ServeOptions) -> str:
    with pytest.raises(ListenError) as caught, listen(wanted):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def connects(listener: Listener) -> bool:
    with socket.socket(listener.socket.family, socket.SOCK_STREAM) as probe:
        probe.connect(listener.socket.getsockname())
    return True


def test_any_free_port() -> None:
    with listen(options()) as listener:
        assert listener.url == f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        assert connects(listener)


def test_the_configured_name_is_answered_for() -> None:
    with listen(options(host="LocalHost")) as listener:
        assert listener.policy.hosts is not None
        assert "localhost" in listener.policy.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_machines_need_a_key(host: str) -> None:
    assert "--api-key" in refusal(options(host=host))
    with listen(options(host=host, api_key="k")) as listener:
        assert listener.policy.api_key == "k"
        assert listener.policy.hosts is None


def test_a_taken_port() -> None:
    with listen(options()) as listener:
        port = listener.socket.getsockname()[1]
        assert "taken" in refusal(options(port=port))


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid", "a" * 300, "..", "\x00"])
def test_a_host_that_is_not_ours(host: str) -> None:
    assert "--host" in refusal(options(host=host))


def test_a_socket_path_too_long_for_the_system(tmp_path: Path) -> None:
    assert "shorter" in refusal(options(socket=tmp_path / ("x" * 101)))


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    assert "no socket" in refusal(options(socket=path))
    assert path.read_text() == "mine"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "can't be made" in refusal(options(socket=tmp_path / "file" / "engine.sock"))


def test_a_living_socket_is_refused_and_a_dead_one_replaced(sockets: Path) -> None:
    path = sockets / "engine.sock"
    with listen(options(socket=path)):
        assert "another engine" in refusal(options(socket=path))
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listen(options(socket=path)) as listener:
        assert connects(listener)
