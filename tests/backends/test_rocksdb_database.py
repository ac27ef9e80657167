"""Who has a database: one owner, who hands it over; the dead lose it; the damaged is replaced."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import pytest

from state_engine.backends.rocksdb.cells import state_range
from state_engine.backends.rocksdb.database import LocalDatabase
from state_engine.backends.rocksdb.locks import lock_files, take_slot, try_lock
from state_engine.backends.rocksdb.options import Tuning
from state_engine.backends.rocksdb.store import FORMAT_VERSION, Changes, Meta
from state_engine.errors import LocalStateError

OWNER = """
    import sys
    from pathlib import Path
    from state_engine.backends.rocksdb.database import LocalDatabase
    from state_engine.backends.rocksdb.options import Tuning
    from state_engine.backends.rocksdb.store import Changes

    database = LocalDatabase(Path(sys.argv[1]), Tuning())
    for line in sys.stdin:
        word = line.split()
        if word[0] == "acquire":
            print(database.acquire(), database.store.meta.token, flush=True)
        elif word[0] == "write":
            changes = Changes()
            changes.cells[b"\\x00\\x01" + word[1].encode()] = b"x"
            database.store.meta.token = word[1]
            database.store.write(changes)
            print("written", flush=True)
        elif word[0] == "release":
            database.release()
            print("released", flush=True)
"""


class Owner:
    """Another process with the same folder."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OWNER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, word: str) -> str:
        write, read = self._pipes()
        write.write(word + "\n")
        write.flush()
        return read.readline().strip()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout

    def kill(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in self._pipes():
            pipe.close()


@pytest.fixture
def own(disk: Path) -> Iterator[Any]:
    made: list[Any] = []

    def make(wait_s: float = 10) -> LocalDatabase:
        made.append(LocalDatabase(disk / "range", Tuning(), wait_s))
        return made[-1]

    yield make
    for database in made:
        database.close()


@pytest.fixture
def other(disk: Path) -> Iterator[Owner]:
    owner = Owner(disk / "range")
    yield owner
    owner.kill()


def write(database: LocalDatabase, token: str) -> None:
    changes = Changes()
    changes.cells[b"\x00\x01" + token.encode()] = b"y"
    database.store.meta.token = token
    database.store.write(changes)


def test_a_database_keeps_what_was_written(own: Any) -> None:
    first = own()
    assert first.acquire()
    write(first, "t1")
    first.close()
    second = own()
    assert second.acquire()
    assert second.store.meta.token == "t1"
    assert second.store.get(b"\x00\x01t1") == b"y"


def test_it_stays_open_for_its_owner(own: Any) -> None:
    database = own()
    assert database.acquire()
    store = database.store
    database.release()
    assert not database.acquire(), "nobody else had it"
    assert database.store is store


def test_one_whose_folder_is_gone_is_replaced(own: Any, disk: Path) -> None:
    database = own()
    write(database, "a")
    database.release()
    shutil.rmtree(disk / "range")
    assert database.acquire()
    assert database.store.meta.token is None
    assert list((disk / "range").iterdir())


def test_an_idle_owner_hands_it_over_and_gets_it_back(own: Any, other: Owner, disk: Path) -> None:
    assert other.do("acquire") == "True None"
    other.do("write a")
    other.do("release")
    mine = own()
    assert mine.acquire()
    assert mine.store.meta.token == "a"
    write(mine, "b")
    mine.release()
    assert other.do("acquire") == "True b"
    other.do("write c")
    other.do("release")
    assert mine.acquire(), "somebody else had it in between"
    assert mine.store.meta.token == "c"
    assert len(lock_files(disk / "range")) == 1, "nobody needed a second database"


def test_an_owner_at_work_keeps_it_and_the_other_gets_a_fresh_one(own: Any, other: Owner) -> None:
    for word in ("acquire", "write a", "release", "acquire"):
        other.do(word)
    mine = own(wait_s=0.2)
    assert mine.acquire()
    assert mine.store.meta.token is None
    write(mine, "mine")
    assert other.do("write b") == "written"
    assert mine.store.get(b"\x00\x01b") is None


def test_a_killed_owner_loses_it_at_once(own: Any, other: Owner, disk: Path) -> None:
    other.do("acquire")
    other.do("write a")
    other.kill()
    mine = own(wait_s=0)
    assert mine.acquire()
    assert mine.store.meta.token == "a"
    assert len(lock_files(disk / "range")) == 1


def test_a_stopped_owner_is_not_waited_for_longer_than_agreed(own: Any, other: Owner) -> None:
    other.do("acquire")
    other.do("release")
    os.kill(other.process.pid, signal.SIGSTOP)
    mine = own(wait_s=0.1)
    assert mine.acquire()
    write(mine, "mine")
    os.kill(other.process.pid, signal.SIGCONT)
    assert other.do("acquire") in ("True None", "False None"), "it has its own database still"


def test_two_instances_in_one_process_do_not_share(own: Any) -> None:
    first, second = own(), own(wait_s=0.05)
    first.acquire()
    second.acquire()
    assert first.store.folder != second.store.folder


def test_many_who_want_it_at_once_never_share(disk: Path) -> None:
    slots: list[Any] = []

    def take() -> None:
        slots.append(take_slot(disk, 0))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({slot.folder for slot in slots}) == 8
    for slot in slots:
        slot.unlock()


def test_a_lock_file_that_was_removed_locks_nothing(disk: Path) -> None:
    first = try_lock(disk / "0.lock")
    assert first is not None
    assert try_lock(disk / "0.lock") is None
    (disk / "0.lock").unlink()
    second = try_lock(disk / "0.lock")
    assert second is not None
    first.unlock()
    assert try_lock(disk / "0.lock") is None, "the file that is there is locked still"
    second.unlock()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_database_that_cannot_be_opened_is_replaced(own: Any, disk: Path, name: str) -> None:
    first = own()
    for number in range(3):
        first.acquire()
        write(first, f"t{number}")
        first.close()  # opening it again makes a file of the log
    files = list((disk / "range/0/db").glob(name))
    assert files
    for file in files:
        file.unlink()
    second = own()
    assert second.acquire()
    assert second.store.meta.token is None
    write(second, "again")


def test_a_database_of_another_format_is_replaced(own: Any) -> None:
    first = own()
    first.acquire()
    first.store.meta = Meta(version=FORMAT_VERSION + 1, token="future")
    first.store.write(Changes())
    first.close()
    second = own()
    assert second.acquire()
    assert second.store.meta == Meta()


def test_damage_that_is_met_later_is_an_error_by_name_and_the_database_goes(own: Any, disk: Path) -> None:
    first = own()
    first.acquire()
    changes = Changes()
    changes.cells = {b"\x00\x01%05d" % n: sha256(b"%d" % n).digest() for n in range(30_000)}
    first.store.meta.token = "t"
    first.store.load(changes)
    first.store.write(Changes())
    first.close()
    for file in (disk / "range/0/db").glob("*.sst"):
        data = bytearray(file.read_bytes())
        if len(data) > 100_000:  # the one with the cells
            data[20_000:30_000] = bytes(10_000)
            file.write_bytes(data)
    second = own()
    second.acquire()
    assert second.store.meta.token == "t"
    with pytest.raises(LocalStateError, match="cannot be used"):
        list(second.store.scan(b"\x00\x01", b"\x00\x02"))
    with pytest.raises(LocalStateError):
        second.store.get_many([b"\x00\x01%05d" % n for n in range(0, 30_000, 100)])
    second.close()
    third = own()
    third.acquire()
    assert third.store.meta.token is None


def test_what_is_left_of_a_load_that_never_ended_is_removed(own: Any) -> None:
    first = own()
    first.acquire()
    number = first.store.begin_load("state")
    changes = Changes()
    changes.cells = {number.to_bytes(2, "big") + b"%d" % n: b"x" for n in range(100)}
    first.store.load(changes)
    first.close()
    second = own()
    second.acquire()
    assert second.store.meta.loading == []
    assert second.store.meta.states == {}
    assert list(second.store.scan(*state_range(number))) == []
    assert second.store.begin_load("state") != number


def test_a_folder_that_cannot_be_made_is_an_error_by_name(disk: Path) -> None:
    (disk / "file").touch()
    with pytest.raises(LocalStateError, match="set_db_storage_paths"):
        LocalDatabase(disk / "file" / "range", Tuning()).acquire()


def test_a_large_piece_of_a_load_is_a_file_and_reads_as_any_other(own: Any, disk: Path) -> None:
    database = own()
    database.acquire()
    store = database.store
    for value in (b"1", b"2"):
        changes = Changes()
        changes.cells = {b"\x00\x01%05d" % n: value for n in reversed(range(20_000))}
        store.load(changes)
    changes = Changes()
    changes.cells = {b"\x00\x01%05d" % n: None for n in range(19_000)}
    store.load(changes)
    assert sum(1 for _ in (disk / "range/0/db").glob("*.sst")) >= 3
    assert list(store.scan(b"\x00\x01", b"\x00\x02")) == [(b"\x00\x01%05d" % n, b"2") for n in range(19_000, 20_000)]
    assert [p.name for p in (disk / "range/0").iterdir()] == ["db"], "files were moved, not copied"
