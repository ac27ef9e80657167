"""The lock of a job: one process of this machine holds it, and every process can see which."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from state_engine.errors import JobAlreadyRunningError, JobDefinitionError
from state_engine.storage import job_lock
from state_engine.storage.job_lock import (
    CONTROL_FOLDER,
    INHERITED,
    Holder,
    HolderKind,
    hold,
    holder,
    holding,
    lock_folder,
    taken,
)

HOLDER = """
import sys
from state_engine.storage.job_lock import hold
hold(sys.argv[1], "orders", sys.argv[2])
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes that hold the lock of `orders` until their standard input ends."""
    begun: list[subprocess.Popen[str]] = []

    def begin(kind: str = "program", **arguments: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, str(tmp_path), kind]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, **arguments
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def folder_of(root: Path) -> Path:
    folder = lock_folder(str(root), "orders")
    assert folder is not None
    return folder


def test_another_process_is_refused_by_number_and_kind_until_it_ends(tmp_path: Path, another: Any) -> None:
    process = another()
    assert holder(folder_of(tmp_path)) == Holder(process.pid, "program")
    who = rf"Process {process.pid} \(program\) holds job 'orders'"
    for kind in get_args(HolderKind):
        with pytest.raises(JobAlreadyRunningError, match=who) as caught:
            hold(str(tmp_path), "orders", kind)
        assert "--kill" in caught.value.action
    process.kill()
    process.wait()
    assert holder(folder_of(tmp_path)) is None
    with holding(str(tmp_path), "orders", "restore"):
        assert holder(folder_of(tmp_path)) == Holder(os.getpid(), "restore")


def test_within_one_process_it_is_held_until_the_last_release(tmp_path: Path) -> None:
    first, second = (hold(str(root), "orders", "program") for root in (tmp_path, f"file://{tmp_path}"))
    first()
    first()
    assert holder(folder_of(tmp_path)) == Holder(os.getpid(), "program"), "releasing twice is releasing once"
    second()
    assert holder(folder_of(tmp_path)) is None


def test_a_process_holds_what_its_starter_has_taken_for_it(tmp_path: Path, another: Any) -> None:
    with taken(folder_of(tmp_path)) as lock:
        assert lock is not None
        assert holder(folder_of(tmp_path)) == Holder(None), "it has not written its number yet"
        process = another("driver", pass_fds=(lock,), env=os.environ | {INHERITED: str(lock)})
    assert holder(folder_of(tmp_path)) == Holder(process.pid, "driver")


def test_a_descriptor_of_something_else_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "other").open("w") as other:
        for number in (str(other.fileno()), "999", "x"):
            monkeypatch.setenv(INHERITED, number)
            with holding(str(tmp_path), "orders", "driver"):
                assert INHERITED not in os.environ, "it is for this process, and not for those that it starts"
                assert holder(folder_of(tmp_path)) == Holder(os.getpid(), "driver")
        other.write("still open")


def test_a_forked_child_neither_holds_it_nor_keeps_it_held(tmp_path: Path) -> None:
    release = hold(str(tmp_path), "orders", "program")
    ready, wait = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"1" if not job_lock._HELD else b"0")
        os.close(wait[1])
        os.read(wait[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1) == b"1"
    release()
    assert holder(folder_of(tmp_path)) is None, "although the child process lives"
    os.close(wait[1])
    os.waitpid(child, 0)
    for descriptor in (*ready, wait[0]):
        os.close(descriptor)


def test_what_has_no_place_for_a_lock_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.delenv(CONTROL_FOLDER, raising=False)
    hold("s3://bucket/state", "orders", "program")()
    monkeypatch.setenv(CONTROL_FOLDER, str(tmp_path / "control"))
    with holding("s3://bucket/state", "orders", "program"):
        folder = lock_folder("s3://bucket/state/", "orders")
        assert folder is not None
        assert holder(folder) == Holder(os.getpid(), "program")
    (tmp_path / "file").write_text("")
    hold(str(tmp_path / "file"), "orders", "program")()
    assert "keeps no process out" in caplog.text
    with pytest.raises(JobDefinitionError):
        hold(str(tmp_path), "../orders", "program")


@pytest.mark.parametrize(("text", "found"), [("", Holder(None)), ("x", Holder(None)), ("12 driver", Holder(12))])
def test_what_the_file_says_is_for_people(tmp_path: Path, text: str, found: Holder) -> None:
    with taken(folder_of(tmp_path)):
        (folder_of(tmp_path) / "lock").write_text(text)
        assert holder(folder_of(tmp_path)) == found
