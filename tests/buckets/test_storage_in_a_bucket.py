"""The storage port on an S3 server that others wrote: the conformance suite, and what object stores alone can do."""

import threading
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.store import S3Store

from state_engine.errors import AlreadyExistsError
from state_engine.storage.open import open_root
from state_engine.testing.s3_server import S3Server
from state_engine.testing.storage_suite import StorageSubject, StorageSuite

ADDRESS = "s3://bucket/state/job"


class ByRequests:
    """Direct access to the objects, by a client of its own."""

    def __init__(self) -> None:
        self._store = S3Store("bucket", prefix="state/job")

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        obstore.put(self._store, path, data)

    def paths(self) -> list[str]:
        return sorted(meta["path"] for page in obstore.list(self._store) for meta in page)


class TestObjectStorageOnS3(StorageSuite):
    @pytest.fixture
    def subject(self, s3: S3Server) -> StorageSubject:
        return StorageSubject(open_root(ADDRESS), ByRequests(), lambda: open_root(ADDRESS))


@pytest.mark.parametrize("races", [100, pytest.param(5_000, marks=pytest.mark.long)])
def test_of_two_puts_at_the_same_time_one_wins(s3: S3Server, races: int) -> None:
    clients = {b"one" * 100: open_root(ADDRESS), b"other" * 100: open_root(ADDRESS)}
    together = threading.Barrier(len(clients))

    def is_put(path: str, data: bytes) -> bool:
        together.wait()
        try:
            clients[data].put_if_absent(path, data)
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(len(clients)) as pool:
        for path in (f"races/{number}" for number in range(races)):
            asked = {data: pool.submit(is_put, path, data) for data in clients}
            [winner] = [data for data, put in asked.items() if put.result()]
            assert clients[winner].get(path) == winner


def test_a_listing_of_more_objects_than_one_answer_has(s3: S3Server) -> None:
    storage = open_root(ADDRESS)
    for number in range(1_005):
        storage.put_if_absent(f"many/{number:04}", b"")
    assert [info.path for info in storage.list("many")] == [f"many/{number:04}" for number in range(1_005)]
    assert len([one for one in s3.requests("bucket") if one.kind == "LIST"]) == 2


def test_a_start_asks_the_store_whether_it_honours_conditional_puts(s3: S3Server) -> None:
    open_root(ADDRESS).check_writable()
    asked = [one for one in s3.requests("bucket") if one.kind == "PUT" and one.key]
    assert [one.status for one in asked] == [200, 412]
    assert {one.key.rpartition("/")[0] for one in asked} == {"state/job/_probe"}
    assert open_root(ADDRESS).list("") == []
