"""The owner of a database: only one at a time, which hands it over; a dead one loses it; a damaged one is replaced."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import pytest
from deaths import Died, Life, another_boot, die_while_removing

from state_engine.backends.rocksdb import store
from state_engine.backends.rocksdb.cells import LAST_NUMBER, state_range
from state_engine.backends.rocksdb.database import LocalDatabase
from state_engine.backends.rocksdb.locks import lock_files, take_slot, try_lock
from state_engine.backends.rocksdb.options import Tuning, open_options
from state_engine.backends.rocksdb.store import FORMAT_VERSION, Changes, Meta, StateMeta
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
def own(tmp_path: Path) -> Iterator[Any]:
    made: list[Any] = []

    def make(wait_s: float = 10) -> LocalDatabase:
        made.append(LocalDatabase(tmp_path / "range", Tuning(), wait_s))
        return made[-1]

    yield make
    for database in made:
        database.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "range")
    yield owner
    owner.kill()


STATE = StateMeta("s", 1, 0, 0, True)


def write(database: LocalDatabase, token: str) -> None:
    changes = Changes()
    changes.cells[b"\x00\x01" + token.encode()] = b"y"
    database.store.meta.token = token
    database.store.meta.states["state"] = STATE
    database.store.meta.next_number = max(2, database.store.meta.next_number)
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
    assert not database.acquire(), "no other owner had it"
    assert database.store is store


def test_one_whose_folder_is_gone_is_replaced(own: Any, tmp_path: Path) -> None:
    database = own()
    write(database, "a")
    database.release()
    shutil.rmtree(tmp_path / "range")
    assert database.acquire()
    assert database.store.meta.token is None
    assert list((tmp_path / "range").iterdir())


def test_an_idle_owner_hands_it_over_and_gets_it_back(own: Any, other: Owner, tmp_path: Path) -> None:
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
    assert mine.acquire(), "another owner had it in between"
    assert mine.store.meta.token == "c"
    assert len(lock_files(tmp_path / "range")) == 1, "no owner needed a second database"


def test_an_owner_at_work_keeps_it_and_the_other_gets_a_fresh_one(own: Any, other: Owner) -> None:
    for word in ("acquire", "write a", "release", "acquire"):
        other.do(word)
    mine = own(wait_s=0.2)
    assert mine.acquire()
    assert mine.store.meta.token is None
    write(mine, "mine")
    assert other.do("write b") == "written"
    assert mine.store.get(b"\x00\x01b") is None


def test_a_killed_owner_loses_it_at_once(own: Any, other: Owner, tmp_path: Path) -> None:
    other.do("acquire")
    other.do("write a")
    other.kill()
    mine = own(wait_s=0)
    assert mine.acquire()
    assert mine.store.meta.token == "a"
    assert len(lock_files(tmp_path / "range")) == 1


def test_a_stopped_owner_is_not_waited_for_longer_than_agreed(own: Any, other: Owner) -> None:
    other.do("acquire")
    other.do("release")
    os.kill(other.process.pid, signal.SIGSTOP)
    mine = own(wait_s=0.1)
    assert mine.acquire()
    write(mine, "mine")
    os.kill(other.process.pid, signal.SIGCONT)
    assert other.do("acquire") in ("True None", "False None"), "it still has its own database"


def test_two_instances_in_one_process_do_not_share(own: Any) -> None:
    first, second = own(), own(wait_s=0.05)
    first.acquire()
    second.acquire()
    assert first.store.folder != second.store.folder


def test_many_who_want_it_at_once_never_share(tmp_path: Path) -> None:
    slots: list[Any] = []

    def take() -> None:
        slots.append(take_slot(tmp_path, 0))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({slot.folder for slot in slots}) == 8
    for slot in slots:
        slot.unlock()


def test_a_lock_file_that_was_removed_locks_nothing(tmp_path: Path) -> None:
    first = try_lock(tmp_path / "0.lock")
    assert first is not None
    assert try_lock(tmp_path / "0.lock") is None
    (tmp_path / "0.lock").unlink()
    second = try_lock(tmp_path / "0.lock")
    assert second is not None
    first.unlock()
    assert try_lock(tmp_path / "0.lock") is None, "the existing file is still locked"
    second.unlock()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_database_that_cannot_be_opened_is_replaced(own: Any, tmp_path: Path, name: str) -> None:
    first = own()
    for number in range(3):
        first.acquire()
        write(first, f"t{number}")
        first.close()  # opening it again writes the log into a file
    files = list((tmp_path / "range/0/db").glob(name))
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


def test_damage_that_is_met_later_is_an_error_by_name_and_the_database_goes(own: Any, tmp_path: Path) -> None:
    first = own()
    first.acquire()
    changes = Changes()
    changes.cells = {b"\x00\x01%05d" % n: sha256(b"%d" % n).digest() for n in range(30_000)}
    first.store.load(changes)
    write(first, "t")
    first.close()
    for file in (tmp_path / "range/0/db").glob("*.sst"):
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
    assert second.store.meta.states == {}
    assert list(second.store.scan(*state_range(number))) == []
    assert second.store.begin_load("state") != number


def cells_of(number: int, value: bytes) -> Changes:
    changes = Changes()
    changes.cells = {number.to_bytes(2, "big") + b"%05d" % n: value for n in range(20_000)}
    return changes


def test_a_number_is_empty_though_the_machine_died_while_it_was_loaded(own: Any, tmp_path: Path) -> None:
    """Ingested files are durable at once; the batch that assigned their number is not."""
    first = own()
    first.acquire()
    write(first, "t1")
    life = Life(0)
    life.synced(first.store._db)
    number = first.store.begin_load("other")
    first.store.load(cells_of(number, b"old"))
    second = LocalDatabase(life.left_by_the_machine(tmp_path / "range"), Tuning())
    with another_boot():
        second.acquire()
    assert second.store.meta.token == "t1"
    assert second.store.begin_load("other") == number, "as far as this process can know, it was not assigned"
    assert list(second.store.scan(*state_range(number))) == []
    assert second.store.get(b"\x00\x01t1") == b"y", "the state of the token's epoch stays"
    second.close()


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_log_that_may_have_lost_its_end_before_the_next_one_empties_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rebooted: bool
) -> None:
    """RocksDB replays the second log after the rest of the first one, so the newest token would lack changes."""

    def slow_to_flush(tuning: Tuning) -> Any:
        made = open_options(tuning)
        made.set_write_buffer_size(1 << 20)
        made.set_max_write_buffer_number(4)
        made.set_min_write_buffer_number_to_merge(4)
        return made

    monkeypatch.setattr(store, "open_options", slow_to_flush)
    first, sizes = LocalDatabase(tmp_path / "range", Tuning()), [0]
    first.acquire()
    first.store.meta.states = {"state": STATE}
    while len(logs := sorted((tmp_path / "range/0/db").glob("*.log"))) == 1:
        changes = Changes()
        changes.cells[b"\x00\x01%d" % len(sizes)] = os.urandom(50_000)
        first.store.meta.token = f"t{len(sizes)}"
        first.store.write(changes)
        sizes.append(logs[0].stat().st_size)
    shutil.copytree(tmp_path / "range", tmp_path / "after")
    first.close()
    second = LocalDatabase(tmp_path / "after", Tuning())
    if rebooted:
        os.truncate(tmp_path / "after/0/db" / logs[0].name, sizes[-4])
    with another_boot() if rebooted else nullcontext():
        second.acquire()
    lacking = [n for n in range(1, len(sizes)) if second.store.get(b"\x00\x01%d" % n) is None]
    assert (second.store.meta.token, lacking) in ((f"t{len(sizes) - 1}", []), (None, list(range(1, len(sizes)))))
    assert (second.store.meta.token is None) == rebooted, "a process that died has lost nothing"
    second.close()


def test_a_piece_of_a_load_that_a_dead_process_left_is_not_overwritten(own: Any, tmp_path: Path) -> None:
    """It died when the file already had its name in the database, and still had its former name."""
    first = own()
    first.acquire()
    first.store.load(cells_of(1, b"x"))
    write(first, "t1")
    first.close()
    largest = max((tmp_path / "range/0/db").glob("*.sst"), key=lambda file: file.stat().st_size)
    os.link(largest, tmp_path / "range/0/load-1")
    second = own()
    second.acquire()
    second.store.load(cells_of(2, b"other"))
    second.store.meta.states["other"] = StateMeta("s", 2, 0, 0, True)
    write(second, "t2")
    second.close()
    third = own()
    third.acquire()
    assert sum(1 for _ in third.store.scan(*state_range(1))) == 20_002
    assert not list((tmp_path / "range/0").glob("load-*"))


def test_numbers_that_are_all_given_out_are_an_error_by_name(own: Any) -> None:
    database = own()
    database.acquire()
    database.store.meta.next_number = LAST_NUMBER
    last = database.store.begin_load("last")
    changes = Changes()
    changes.cells[last.to_bytes(2, "big") + b"x"] = b"x"
    database.store.load(changes)
    with pytest.raises(LocalStateError, match="used up"):
        database.store.begin_load("another")
    database.close()
    assert database.acquire()
    assert database.store.begin_load("another") == 1, "it was replaced"


def test_a_database_whose_removal_is_cut_off_is_not_there(
    own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = own()
    first.acquire()
    write(first, "t1")
    with monkeypatch.context() as patch:
        die_while_removing(patch, "*.log")
        with pytest.raises(Died):
            first.discard()
    first.close()
    second = LocalDatabase(tmp_path / "range", Tuning())
    second.acquire()
    assert second.store.meta.token is None
    assert [path.name for path in (tmp_path / "range").iterdir() if path.is_dir()] == ["0"]
    second.close()


def test_what_cannot_be_removed_is_not_taken_for_empty(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **how: Any) -> None:
        raise PermissionError("not allowed")

    database = own()
    database.acquire()
    write(database, "t1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        patch.setattr(shutil, "rmtree", lambda path, ignore_errors=False: None if ignore_errors else refuse())
        with pytest.raises(LocalStateError, match="not allowed"):
            database.discard()
    database.discard()
    assert database.store.meta == Meta()


def test_what_is_discarded_unopened_is_empty_too(own: Any) -> None:
    first = own()
    first.acquire()
    write(first, "t1")
    first.close()
    second = own()
    second.discard()
    assert second.store.meta == Meta()


def test_a_folder_that_cannot_be_made_is_an_error_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalStateError, match="set_db_storage_paths"):
        LocalDatabase(tmp_path / "file" / "range", Tuning()).acquire()


def test_a_large_piece_of_a_load_is_a_file_and_reads_as_any_other(own: Any, tmp_path: Path) -> None:
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
    assert sum(1 for _ in (tmp_path / "range/0/db").glob("*.sst")) >= 3
    assert list(store.scan(b"\x00\x01", b"\x00\x02")) == [(b"\x00\x01%05d" % n, b"2") for n in range(19_000, 20_000)]
    assert [p.name for p in (tmp_path / "range/0").iterdir() if p.name != "boot"] == ["db"], (
        "files were moved, not copied"
    )
