"""How the command line finds the process of a running job."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lakestate.control import (
    Endpoint,
    RunnerUnreachableError,
    endpoint_path,
    fetch,
    find_endpoint,
    publish_endpoint,
    read_endpoint,
)
from lakestate.rest.ids import job_id
from state_engine.errors import JobDefinitionError
from state_engine.storage.job_lock import CONTROL_FOLDER

ENDPOINT = Endpoint(url="http://127.0.0.1:1", pid=os.getpid(), incarnation="abc", token="secret-of-sixteen")


def answering(incarnation: str, asked: list[str] | None = None) -> Callable[[Endpoint, str], bytes]:
    def ask(endpoint: Endpoint, path: str) -> bytes:
        if asked is not None:
            asked.append(path)
        return msgspec.json.encode({"incarnation": incarnation, "state": "RUNNING"})

    return ask


def silent(endpoint: Endpoint, path: str) -> bytes:
    raise ConnectionRefusedError("nobody there")


def test_it_is_there_while_the_block_runs_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    root, asked = str(tmp_path), list[str]()
    with publish_endpoint(root, "orders", ENDPOINT):
        path = tmp_path / "orders" / "_control" / "endpoint.json"
        assert path.stat().st_mode & 0o777 == 0o600
        assert [one.name for one in path.parent.iterdir()] == ["endpoint.json"]
        assert find_endpoint(root, "orders", ask=answering("abc", asked)) == ENDPOINT
        assert find_endpoint(f"file://{root}", "orders", ask=answering("abc")) == ENDPOINT
        assert find_endpoint(root, "other", ask=silent) is None
    assert asked == [f"/jobs/{job_id('orders')}/incarnation"]
    assert not path.exists()
    assert find_endpoint(root, "orders", ask=silent) is None


def test_one_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    with publish_endpoint(str(tmp_path), "orders", ENDPOINT):
        path = tmp_path / "orders" / "_control" / "endpoint.json"
        path.write_bytes(path.read_bytes().replace(b"127", b"\xff27"))
        assert read_endpoint(str(tmp_path), "orders") is None


def test_it_is_removed_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"), publish_endpoint(str(tmp_path), "orders", ENDPOINT):
        raise ValueError("bad")
    assert not list((tmp_path / "orders" / "_control").iterdir())


def test_a_living_process_that_does_not_answer_is_no_stopped_job(tmp_path: Path) -> None:
    root = str(tmp_path)
    with publish_endpoint(root, "orders", ENDPOINT):
        with pytest.raises(RunnerUnreachableError, match="nobody there"):
            find_endpoint(root, "orders", ask=silent)
        with pytest.raises(RunnerUnreachableError, match="another job or incarnation"):
            find_endpoint(root, "orders", ask=answering("other"))
        with pytest.raises(RunnerUnreachableError):
            find_endpoint(root, "orders", ask=lambda endpoint, path: b"<html>")


def test_what_a_killed_process_left_is_stale_although_its_number_is_taken(tmp_path: Path) -> None:
    program = (
        "import os, sys; from lakestate.control import Endpoint, publish_endpoint\n"
        f"with publish_endpoint(sys.argv[1], 'orders', Endpoint(url='u', pid={os.getpid()}, incarnation='abc')):\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == -9
    path = endpoint_path(str(tmp_path), "orders")
    assert path is not None
    assert path.exists(), "it was killed before it could remove it"
    assert read_endpoint(str(tmp_path), "orders") is None
    assert find_endpoint(str(tmp_path), "orders", ask=silent) is None


def test_a_later_runner_takes_the_place_of_an_earlier_one_and_keeps_it(tmp_path: Path) -> None:
    root, later = str(tmp_path), msgspec.structs.replace(ENDPOINT, incarnation="later")
    with publish_endpoint(root, "orders", later):
        pass
    first = publish_endpoint(root, "orders", ENDPOINT)
    with first:
        second = publish_endpoint(root, "orders", later)
        second.__enter__()
    assert read_endpoint(root, "orders") == later, "the first one did not remove the second one's file"
    second.__exit__(None, None, None)
    assert read_endpoint(root, "orders") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"url": 1}', b"[]"])
def test_a_damaged_file_is_no_endpoint(tmp_path: Path, content: bytes) -> None:
    root = str(tmp_path)
    with publish_endpoint(root, "orders", ENDPOINT):
        path = endpoint_path(root, "orders")
        assert path is not None
        path.write_bytes(content)
        assert read_endpoint(root, "orders") is None


@pytest.mark.parametrize("name", ["../orders", "", "a/b", ".hidden"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(JobDefinitionError):
        endpoint_path(str(tmp_path), name)


def test_a_local_folder_replaces_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTROL_FOLDER, str(tmp_path))
    with publish_endpoint("s3://bucket/state", "orders", ENDPOINT):
        assert find_endpoint("s3://bucket/state/", "orders", ask=answering("abc")) == ENDPOINT
        assert find_endpoint("s3://bucket/other", "orders", ask=silent) is None
        assert find_endpoint("s3://bucket/state", "other", ask=silent) is None
    assert read_endpoint("s3://bucket/state", "orders") is None
    assert endpoint_path(str(tmp_path / "state"), "orders") == tmp_path / "state/orders/_control/endpoint.json"


@pytest.mark.parametrize("root", ["s3://bucket/state", "memory://x"])
def test_other_storages_have_no_file(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTROL_FOLDER, raising=False)
    assert endpoint_path(root, "orders") is None
    with publish_endpoint(root, "orders", ENDPOINT):
        assert find_endpoint(root, "orders", ask=silent) is None


def test_an_answer_that_is_cut_off_is_as_good_as_none() -> None:
    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        asked = Endpoint(url=f"http://127.0.0.1:{listening.getsockname()[1]}", pid=1, incarnation="abc")
        with pytest.raises(ConnectionError, match="cut off"):
            fetch(asked, "/overview")
        thread.join(10)
