"""Failures that only a disk has: of fsync, of the operating system, and leftover files."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from state_engine.errors import AlreadyExistsError, NotFoundError, NotWritableError, StorageError
from state_engine.storage.local import LocalStorage


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what reaches the disk, in order: names of fsynced files and folders, and links."""
    seen: list[str] = []
    fsync, link = os.fsync, os.link

    def watch_fsync(descriptor: int) -> None:
        seen.append("fsync " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def watch_link(source: str, target: str) -> None:
        seen.append("link " + os.path.basename(target))
        link(source, target)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "link", watch_link)
    return seen


class _Ids:
    def new_id(self) -> str:
        return "id"


def test_put_if_absent_syncs_the_file_before_the_name_and_the_folder_after(tmp_path: Path, calls: list[str]) -> None:
    LocalStorage(tmp_path).put_if_absent("folder/e0", b"x")
    calls.clear()
    LocalStorage(tmp_path, ids=_Ids()).put_if_absent("folder/e1", b"x")
    assert calls == ["fsync .tmp-id", "link e1", "fsync folder"]


def test_an_object_is_reported_to_exist_when_its_name_is_durable(tmp_path: Path, calls: list[str]) -> None:
    """The process that linked it may have died before the fsync, or this may have failed."""
    storage = LocalStorage(tmp_path, ids=_Ids())
    storage.put_if_absent("folder/e1", b"x")
    calls.clear()
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("folder/e1", b"y")
    assert calls[-2:] == ["link e1", "fsync folder"]


def test_an_object_whose_name_cannot_be_made_durable_is_not_reported_to_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("e1", b"x")
    fsync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    with pytest.raises(StorageError, match="may or may not exist") as raised:
        storage.put_if_absent("e1", b"y")
    assert not isinstance(raised.value, AlreadyExistsError)


def test_put_exclusive_syncs_file_and_folder(tmp_path: Path, calls: list[str]) -> None:
    LocalStorage(tmp_path).put_exclusive("folder/earlier", b"x")
    calls.clear()
    LocalStorage(tmp_path).put_exclusive("folder/changes", b"x", b"y")
    assert calls == ["fsync changes", "fsync folder"]


def test_new_folders_are_made_durable_from_the_outside_in(tmp_path: Path, calls: list[str]) -> None:
    LocalStorage(tmp_path / "root").put_exclusive("a/b/file", b"x")
    assert calls == [f"fsync {tmp_path.name}", "fsync root", "fsync a", "fsync file", "fsync b"]


def test_folders_of_a_maker_who_may_have_died_are_made_durable_once(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "root/a/b").mkdir(parents=True)
    storage = LocalStorage(tmp_path / "root")
    for name in ("one", "two"):
        storage.put_exclusive(f"a/b/{name}", b"x")
    assert calls == [f"fsync {tmp_path.name}", "fsync root", "fsync a", "fsync one", "fsync b", "fsync two", "fsync b"]


@pytest.mark.parametrize("step", ["fsync", "link", "write"])
@pytest.mark.parametrize(
    ("number", "raised", "remedy"),
    [
        (errno.ENOSPC, NotWritableError, "Free space"),
        (errno.EDQUOT, NotWritableError, "quota"),
        (errno.EROFS, NotWritableError, "write permission"),
        (errno.ENOTSUP, NotWritableError, "object store"),
        (errno.EIO, StorageError, "Check the disk"),
    ],
)
def test_errors_have_names_and_remedies_and_leave_no_temporary_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    number: int,
    raised: type[StorageError],
    remedy: str,
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(raised, match=remedy) as caught:
        LocalStorage(tmp_path).put_if_absent("e1", b"x")
    assert type(caught.value) is raised
    assert list(tmp_path.iterdir()) == []


def test_a_put_that_fails_after_the_link_keeps_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object may be durable; the caller must read it back."""
    LocalStorage(tmp_path).put_if_absent("e0", b"x")
    fsync, count = os.fsync, 0

    def fail_for_the_folder(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_the_folder)
    with pytest.raises(StorageError, match="may or may not exist"):
        LocalStorage(tmp_path).put_if_absent("e1", b"x")
    assert [file.name for file in tmp_path.iterdir() if file.name != "e0"] == ["e1"]


@pytest.mark.parametrize("folder", ["", "_epochs/g000001"])
def test_temporary_files_of_killed_writers_are_not_listed(tmp_path: Path, folder: str) -> None:
    storage = LocalStorage(tmp_path)
    kept = f"{folder}/e1".lstrip("/")
    storage.put_if_absent(kept, b"x")
    writer = (
        "import os, signal, sys\n"
        "from state_engine.storage.local import LocalStorage\n"
        "os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "LocalStorage(sys.argv[1]).put_if_absent(sys.argv[2], b'half')\n"
    )
    killed = subprocess.run([sys.executable, "-c", writer, str(tmp_path), f"{folder}/e2".lstrip("/")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list((tmp_path / folder).glob(".tmp-*"))) == 1
    assert [info.path for info in storage.list(folder)] == [kept]
    assert [info.path for info in storage.list(folder, recursive=False)] == [kept]
    assert [info.path for info in storage.list("")] == [kept]
    [abandoned] = storage.abandoned()
    assert abandoned.size == len(b"half")
    storage.put_if_absent(f"{folder}/e2".lstrip("/"), b"whole")
    storage.delete(abandoned.path)
    assert not storage.abandoned()
    assert not list((tmp_path / folder).glob(".tmp-*"))


def test_the_temporary_file_of_a_living_writer_is_not_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, link, seen = LocalStorage(tmp_path), os.link, []

    def look(source: str, target: str) -> None:
        seen.append((os.path.exists(source), list(storage.abandoned())))
        link(source, target)

    monkeypatch.setattr(os, "link", look)
    storage.put_if_absent("a/e1", b"x")
    assert seen == [(True, [])]


def test_a_file_where_a_folder_should_be_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "root").write_bytes(b"a file")
    storage = LocalStorage(tmp_path / "root")
    with pytest.raises(NotWritableError, match="What to do"):
        storage.check_writable()
    with pytest.raises(NotFoundError):
        storage.get("below/it")
    assert storage.list("") == []


def test_a_long_write_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
    LocalStorage(tmp_path).put_exclusive("file", b"0123456789" * 10, b"end")
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10 + b"end"


def test_a_partly_written_exclusive_file_stays_and_its_name_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    storage = LocalStorage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(NotWritableError, match="full"):
            storage.put_exclusive("file", b"x")
    with pytest.raises(AlreadyExistsError):
        storage.put_exclusive("file", b"x")


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_larger_than_a_piece_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    advised: list[tuple[int, int]] = []

    def advise(descriptor: int, offset: int, length: int, advice: int) -> None:
        advised.append((offset, length))
        if refused:
            raise OSError(errno.EINVAL, "this file system takes no advice")

    monkeypatch.setattr("state_engine.storage.durable._PIECE", 4)
    monkeypatch.setattr("os.posix_fadvise", advise)
    LocalStorage(tmp_path).put_exclusive("a", b"0123456789", b"abcd")
    assert LocalStorage(tmp_path).get("a") == b"0123456789abcd"
    assert advised == [(0, 4), (4, 4), (10, 4)]
