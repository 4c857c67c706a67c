"""Hosts files, and when a rank counts as lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.distributed.hosts import Hosts, HostsError, RankHost
from engine.distributed.vital import BEHIND_SECONDS, SILENCE_SECONDS, Vital

HERE = {"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}
THERE = {"ssh": "studio.local", "ips": ["10.0.0.2", "10.0.1.2"]}


def written(folder: Path, content: Any) -> Path:
    path = folder / "hosts.json"
    path.write_text(json.dumps(content))
    return path


def test_a_list_of_hosts_is_a_ring(tmp_path: Path) -> None:
    hosts = Hosts.read(written(tmp_path, [HERE, THERE]))
    assert hosts.backend == "ring"
    assert hosts.address == "127.0.0.1"
    assert hosts.ranks[1] == RankHost(1, "studio.local", ("10.0.0.2", "10.0.1.2"))
    assert [host.local for host in hosts.ranks] == [True, False]
    assert str(hosts.ranks[1]) == "rank 1 (studio.local)"


def test_backend_and_environment_come_from_the_file(tmp_path: Path) -> None:
    entries = [{**HERE, "rdma": [None, "rdma_en2"]}, {**THERE, "rdma": ["rdma_en2", None]}]
    file = {"backend": "jaccl", "envs": ["MLX_METAL_FAST_SYNCH=1"], "hosts": entries}
    hosts = Hosts.read(written(tmp_path, file))
    assert hosts.backend == "jaccl"
    assert hosts.rdma == ((None, "rdma_en2"), ("rdma_en2", None))
    assert hosts.environment == {"MLX_METAL_FAST_SYNCH": "1"}


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
def test_only_rank_0_needs_addresses_where_a_library_connects_the_ranks(
    tmp_path: Path, backend: str
) -> None:
    file = {"backend": backend, "hosts": [HERE, {"ssh": "studio.local"}]}
    hosts = Hosts.read(written(tmp_path, file))
    assert (hosts.backend, hosts.ranks[1].ips) == (backend, ())


def test_over_nccl_ranks_on_one_machine_have_a_gpu_each(tmp_path: Path) -> None:
    entries = [HERE, THERE, HERE, THERE, HERE]
    hosts = Hosts.read(written(tmp_path, {"backend": "nccl", "hosts": entries}))
    assert [hosts.device(host) for host in hosts.ranks] == [0, 0, 1, 1, 2]
    ring = Hosts.read(written(tmp_path, entries))
    assert [ring.device(host) for host in ring.ranks] == [0] * 5


@pytest.mark.parametrize(
    ("names", "beside", "memories"),
    [
        (["127.0.0.1", "localhost", "::1"], [3, 3, 3], 1),
        (["studio-1", "studio-1", "studio-2"], [2, 2, 1], 2),
        (["studio-1", "127.0.0.1", "studio-2", "studio-2"], [2, 2, 2, 2], 2),
        (["127.0.0.1", "localhost", "studio-2"], [2, 2, 1], 2),
    ],
)
def test_ranks_on_one_machine_share_its_memory(
    tmp_path: Path, names: list[str], beside: list[int], memories: int
) -> None:
    entries = [{"ssh": name, "ips": ["127.0.0.1"]} for name in names]
    hosts = Hosts.read(written(tmp_path, entries))
    assert [hosts.beside(host) for host in hosts.ranks] == beside
    assert hosts.memories == memories
    gpus = Hosts.read(written(tmp_path, {"backend": "nccl", "hosts": entries}))
    assert [gpus.beside(host) for host in gpus.ranks] == [1] * len(names), "each has a GPU"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"hosts": 3}, "mlx.launch's format"),
        ([{"ips": ["127.0.0.1"]}, THERE], "lacks 'ssh'"),
        ({"hosts": [HERE, THERE], "envs": ["NO_VALUE"]}, "mlx.launch's format"),
        ([HERE], "two ranks or more, and it names 1"),
        ("x", "it names no hosts"),
        ([], "it names no hosts"),
        ([5, 6], "a host is an object"),
        ({"backend": "any", "hosts": [HERE, THERE]}, '"any" can\'t be used; use ring'),
        ({"backend": "mpi", "hosts": [{"ssh": "a"}, THERE]}, 'rank 0 (a) needs "ips"'),
        ([HERE, {"ssh": "studio.local"}], 'rank 1 (studio.local) needs "ips"'),
        ([HERE, {"ssh": "studio.local", "ips": ["studio"]}], '"studio" is no IP address'),
        ({"backend": "jaccl", "hosts": [HERE, THERE]}, 'needs "rdma"'),
        ([{**HERE, "ips": ["192.0.2.1"]}, THERE], "192.0.2.1 is no address of this machine"),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path: Path, content: Any, told: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(HostsError) as caught:
        Hosts.read(path)
    line = str(caught.value)
    assert line.startswith(f"can't use {path}: ")
    assert told in line
    assert "\n" not in line


def test_what_is_no_json_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    path.write_text("[\n{")
    with pytest.raises(HostsError, match="it is no valid JSON from line 2, column 2 on"):
        Hosts.read(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(HostsError, match="there is no such file"):
        Hosts.read(tmp_path / "none.json")


def test_a_rank_that_beats_and_keeps_up_is_well() -> None:
    vital = Vital(heard=0.0, level=0.0)
    for second in range(1, 60):
        vital.beat(place=second, now=float(second))
        assert vital.complaint(leading=second + 1, now=second + 0.5) is None


def test_silence_is_a_loss() -> None:
    vital = Vital(heard=0.0, level=0.0)
    assert vital.complaint(0, SILENCE_SECONDS) is None
    assert "not heard of" in (vital.complaint(0, SILENCE_SECONDS + 0.1) or "")


def test_a_rank_that_beats_and_stays_behind_is_stuck() -> None:
    vital = Vital(heard=0.0, level=0.0)
    vital.beat(place=5, now=1.0)
    late = 1.0 + BEHIND_SECONDS + 0.1
    vital.beat(place=5, now=late)
    assert vital.complaint(leading=5, now=late) is None, "level with rank 0, however long"
    assert vital.complaint(leading=6, now=late) is None, "it was level a moment ago"
    vital.beat(place=5, now=2 * late)
    assert "stuck" in (vital.complaint(leading=6, now=2 * late) or "")
