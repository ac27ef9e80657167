"""Puts that may not be durable, and files that replace others."""

import os
from pathlib import Path

import pytest

from state_engine.errors import StorageError
from state_engine.storage import durable
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.tables import put_once


def test_a_file_takes_the_place_of_another_when_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls = tmp_path / "file", []
    path.write_bytes(b"old")
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append("draft" if name.startswith(durable.TEMPORARY) else name)
        fsync(descriptor)

    def watched_replace(draft: str, target: str) -> None:
        calls.append("replace")
        replace(draft, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    durable.replace(str(path), b"new", 0o600)
    assert calls == ["draft", "replace", tmp_path.name]
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_is_there_after_an_error_is_put_again_since_it_may_not_be_durable() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("after", "put_if_absent")])
    assert put_once(storage, "a", b"x")
    assert [operation for operation, _ in storage.calls].count("put_if_absent") == 2


def test_what_cannot_be_made_durable_is_an_error() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("after", "put_if_absent"), Fault("before", "put_if_absent")])
    with pytest.raises(StorageError, match="Injected"):
        put_once(storage, "a", b"x")
