"""New names, addresses, and the limit of the memory storage."""

from pathlib import Path

import pytest

from state_engine.clock import RandomIds
from state_engine.errors import (
    AlreadyExistsError,
    JobDefinitionError,
    NotFoundError,
    NotWritableError,
    StorageError,
)
from state_engine.storage.create import ATTEMPTS, create_under_new_name
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.object_store import ObjectStorage
from state_engine.storage.open import open_root, open_storage


class _Numbers:
    def __init__(self) -> None:
        self._last = 0

    def new_id(self) -> str:
        self._last += 1
        return str(self._last)


def test_a_taken_name_and_a_failure_lead_to_the_next_name() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("after", "put_exclusive", "file-2")])
    storage.inner.put_if_absent("file-1", b"other")
    assert create_under_new_name(storage, _Numbers(), "file-{}".format, b"a", b"b") == "file-3"
    assert storage.get("file-3") == b"ab"


def test_the_last_cause_is_chained() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("before", "put_exclusive", times=None)])
    with pytest.raises(StorageError, match="file-10") as caught:
        create_under_new_name(storage, _Numbers(), "file-{}".format, b"x")
    assert isinstance(caught.value.__cause__, StorageError)
    assert "Injected" in str(caught.value.__cause__)
    assert len(storage.calls) == ATTEMPTS


def test_a_full_disk_is_not_tried_again() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("before", error=NotWritableError)])
    with pytest.raises(NotWritableError):
        create_under_new_name(storage, RandomIds(), "file-{}".format, b"x")
    assert len(storage.calls) == 1


@pytest.mark.parametrize("job", ["", "..", ".hidden", "-x", "a/b", "a b", "ü", "a" * 129, "a\n"])
def test_job_names_that_cannot_be_part_of_a_path_are_refused(tmp_path: Path, job: str) -> None:
    with pytest.raises(JobDefinitionError, match="What to do"):
        open_storage(str(tmp_path), job)


def test_addresses(tmp_path: Path) -> None:
    assert open_storage(str(tmp_path), "job").url == str(tmp_path / "job")
    assert open_storage(f"{tmp_path}/", "job").url == str(tmp_path / "job")
    assert open_storage(f"file://{tmp_path}/with%20space", "job").url == str(tmp_path / "with space" / "job")
    assert open_storage("memory://addresses/", "job").url == "memory://addresses/job"
    assert isinstance(open_root("memory:///"), MemoryStorage)


def test_a_bucket_is_opened_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    storage = open_storage("s3://bucket/prefix/", "job")
    assert isinstance(storage, ObjectStorage)
    assert storage.url == "s3://bucket/prefix/job"


@pytest.mark.parametrize(
    ("variables", "match", "action"),
    [
        ({"AWS_ENDPOINT_URL": "minio:9000"}, "AWS_ENDPOINT_URL is 'minio:9000', which is no URL", "https://"),
        ({"AWS_ENDPOINT_URL": ""}, "AWS_ENDPOINT_URL is ''", "remove it"),
        ({"AWS_ENDPOINT": "http://"}, "AWS_ENDPOINT is 'http://'", "https://"),
        ({"AWS_ENDPOINT_URL": "http://minio:9000"}, "without encryption", "AWS_ALLOW_HTTP=true"),
        ({"AWS_TIMEOUT": "banana"}, 'parse "banana" as Duration', "variables in the environment"),
    ],
)
def test_a_variable_that_cannot_be_right_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], match: str, action: str
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StorageError, match=match) as refused:
        open_root("s3://bucket/prefix")
    assert action in refused.value.action
    assert "\n" not in refused.value.message


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(StorageError, match="Use a directory"):
        open_storage("carrier-pigeon://x", "job")


def test_memory_takes_five_mebibytes_at_most() -> None:
    storage = MemoryStorage()
    storage.put_exclusive("fits", bytes(5 * 1024 * 1024))
    with pytest.raises(NotWritableError, match="at most 5242880"):
        storage.put_exclusive("too-large", bytes(5 * 1024 * 1024), b"x")
    assert not storage.exists("too-large")


def test_memory_of_one_name_is_one_storage_until_it_is_forgotten() -> None:
    open_storage("memory://registry", "job").put_if_absent("a", b"x")
    assert open_storage("memory://registry", "job").get("a") == b"x"
    assert open_storage("memory://registry", "other").list("") == []
    with pytest.raises(AlreadyExistsError):
        open_storage("memory://registry", "job").put_if_absent("a", b"y")
    MemoryStorage.forget("registry/job")
    with pytest.raises(NotFoundError):
        open_storage("memory://registry", "job").get("a")
