"""The pool of Python workers; the test plays Spark: it connects, writes tasks, and requests kills. No JVM."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pool_of_workers import ABORT, CRASH, END, HELPER, READ, TELL, WAIT

from state_engine.spark.wire.exits import exit_in, exit_status

PATIENCE_S = 10.0

SCRIPT = Path(__file__).with_name("pool_of_workers.py")
SECONDS = 30


class Pool:
    """The daemon as Spark sees it."""

    def __init__(self, path: Path, reuse: bool = True, grows: bool = True, files: int | None = None) -> None:
        self.path = path
        self.lines: list[Line] = []
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(SCRIPT), str(path), "reuse" if reuse else "once", "grows" if grows else "fixed"),
                *([] if files is None else [str(files)]),
            ],
            cwd=path.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.says(b"listening")

    def says(self, what: bytes) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == what

    def hears(self) -> None:
        """Waits until the pool has noticed that one more worker is done with a task, or dead."""
        self.says(b"heard")

    def connect(self) -> "Line":
        self.lines.append(Line(self))
        return self.lines[-1]

    def kill(self, line: "Line") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.pid.to_bytes(4))
        self.process.stdin.flush()

    def workers(self) -> set[int]:
        return {pid for pid in children_of(self.process.pid) if alive(pid)}

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0

    def clean(self) -> None:
        workers = self.workers()
        self.process.kill()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(SECONDS)
        for line in self.lines:
            line.sock.close()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]


class Line:
    """A connection to the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(str(pool.path))
        self.pid = self.number()
        if self.pid >= 2**31:
            self.sock.close()
            raise OSError("there can be no worker more")

    def number(self) -> int:
        data = self.sock.recv(4)
        assert len(data) == 4, "the connection was closed"
        return int.from_bytes(data)

    def begin(self, partition: int, what: bytes = TELL) -> "Line":
        self.sock.sendall(partition.to_bytes(4) + what)
        return self

    def run(self, partition: int, what: bytes = TELL) -> int:
        number = self.begin(partition, what).number()
        if what not in (WAIT, END):
            self.pool.hears()
        return number

    def is_closed(self) -> bool:
        return self.sock.recv(1) == b""


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has ended
        return []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end(*pids: int) -> None:
    """Waits until processes have ended; fails by the test's time limit."""
    while any(alive(pid) for pid in pids):
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    pools: list[Pool] = []

    def make(**how: bool) -> Pool:
        pools.append(Pool(tmp_path / f"{len(pools)}.sock", **how))
        return pools[-1]

    yield make
    for pool in pools:
        pool.clean()


def test_a_partition_stays_with_its_worker_whichever_connection_it_comes_by(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero, one = a.run(0), b.run(1)
    assert zero != one
    for _ in range(20):
        assert (b.run(0), a.run(1)) == (zero, one)
        assert (a.run(0), b.run(1)) == (zero, one)


def test_the_first_task_of_a_connection_may_go_to_another_worker_than_the_one_it_is_named_by(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    assert a.pid != b.pid
    assert b.run(0) == a.pid
    assert pool.workers() == {a.pid, b.pid}


def test_more_partitions_than_connections_have_a_worker_each(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    homes = [a.run(0), b.run(1), a.run(2), b.run(3)]
    assert len(set(homes)) == 4
    assert [line.run(n) for line, n in ((b, 2), (a, 3), (a, 0), (b, 1))] == [homes[n] for n in (2, 3, 0, 1)]
    assert a.run(4) in homes
    assert pool.workers() == set(homes)


def test_where_there_may_be_no_more_workers_partitions_share_them(start) -> None:
    pool = start(grows=False)
    a, b = pool.connect(), pool.connect()
    assert len({a.run(0), b.run(1), a.run(2), b.run(3)}) == 2
    assert len(pool.workers()) == 2


def test_a_task_does_not_wait_for_a_busy_worker(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero = a.run(0)
    assert a.run(0, WAIT) == zero
    other = b.run(0)
    assert other != zero
    assert b.run(0) == other


def test_a_cancelled_task_ends_the_worker_that_runs_it_and_no_other(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero, one = a.run(0), b.run(1)
    assert b.run(0, WAIT) == zero
    pool.kill(b)
    assert b.is_closed()
    await_end(zero)
    assert pool.workers() == {one}
    assert a.run(1) == one
    again = a.run(0)
    assert again not in (zero, one)


def test_a_worker_that_dies_closes_the_connection_it_served(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero, one = a.run(0), b.run(1)
    b.begin(0, CRASH)
    assert b.is_closed()
    pool.hears()
    await_end(zero)
    c = pool.connect()
    assert c.run(1) == one
    assert a.run(0) == c.run(0)


def test_the_traceback_of_a_worker_that_dies_is_left_where_spark_looks_for_it(start, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHON_FAULTHANDLER_DIR", str(tmp_path))
    pool = start()
    a, b = pool.connect(), pool.connect()
    assert b.run(0) == a.pid
    b.begin(0, ABORT)
    assert b.is_closed()
    text = (tmp_path / str(b.pid)).read_text()
    assert "pool_of_workers.py" in text
    assert exit_in(text) == "It was killed by SIGABRT."


@pytest.mark.parametrize(
    ("ends", "how"),
    [(CRASH, "It exited with code 3."), (WAIT, "It was killed by SIGKILL (Linux does that when memory runs out).")],
)
def test_how_a_worker_ended_is_left_where_spark_looks_for_it(
    start, tmp_path, monkeypatch, ends: bytes, how: str
) -> None:
    monkeypatch.setenv("PYTHON_FAULTHANDLER_DIR", str(tmp_path))
    line = start().connect()
    line.begin(0, ends)
    if ends == WAIT:
        os.kill(line.number(), signal.SIGKILL)
    assert line.is_closed()
    assert exit_in((tmp_path / str(line.pid)).read_text()) == how
    assert not (tmp_path / f"workers-{line.pool.process.pid}" / str(line.pid)).exists()


def test_workers_that_ended_leave_no_process_behind(start) -> None:
    pool = start()
    line = pool.connect()
    zero = line.run(0)
    line.begin(0, CRASH)
    assert line.is_closed()
    pool.hears()
    until = time.monotonic() + PATIENCE_S
    while zero in children_of(pool.process.pid):  # it may still be ending when the next connection comes
        assert time.monotonic() < until
        pool.connect()


def test_the_status_of_what_is_no_child_is_not_known() -> None:
    assert exit_status(1) is None


def test_a_process_that_a_worker_left_behind_holds_no_connection_open(start, tmp_path) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    assert b.run(1) == a.pid
    b.begin(1, HELPER)
    assert b.is_closed()
    helper = int((tmp_path / "helper.pid").read_text())
    assert alive(helper)
    os.kill(helper, signal.SIGKILL)


def test_a_kill_of_a_worker_that_has_just_died_ends_nothing_else(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero, one = a.run(0), b.run(1)
    assert a.run(0, WAIT) == zero
    os.kill(pool.process.pid, signal.SIGSTOP)  # busy elsewhere
    os.kill(zero, signal.SIGKILL)
    await_end(zero)
    pool.kill(a)
    os.kill(pool.process.pid, signal.SIGCONT)
    assert a.is_closed()
    assert b.run(1) == one


def test_a_task_for_which_there_can_be_no_new_worker_goes_to_an_idle_one(start) -> None:
    pool = start(files=16)
    lines = [pool.connect(), pool.connect()]
    homes = {line.run(n) for n, line in enumerate(lines)}
    with suppress(OSError):
        for partition in range(2, 100):  # until there are no more descriptors
            lines.append(pool.connect())
            homes.add(lines[-1].run(partition))
    assert len(lines) < 16
    assert lines[0].run(100) in homes
    assert lines[1].run(101) in homes


def test_who_closes_a_connection_before_it_is_answered_ends_nothing(start) -> None:
    pool = start()
    a = pool.connect()
    os.kill(pool.process.pid, signal.SIGSTOP)
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(pool.path))
    client.close()
    os.kill(pool.process.pid, signal.SIGCONT)
    assert a.run(0) == a.pid


def test_a_worker_that_ends_itself_lets_spark_close_the_connection(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero, one = a.run(0), b.run(1)
    assert a.run(0, END) == zero
    a.sock.close()
    pool.hears()
    await_end(zero)
    assert b.run(1) == one
    assert b.run(0) not in (zero, one)


def test_a_kill_of_an_idle_connection_closes_it_and_leaves_the_state_where_it_is(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero, one = a.run(0), b.run(1)
    pool.kill(a)
    assert a.is_closed()
    assert (b.run(0), b.run(1)) == (zero, one)


def test_a_kill_of_a_process_that_no_connection_is_named_by_is_nothing(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    zero = a.run(0)
    pool.kill(a)
    assert a.is_closed()
    pool.kill(a)
    assert b.run(0) == zero


def test_a_new_connection_is_named_by_a_worker_that_no_other_one_is_named_by(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    a.sock.close()
    c = pool.connect()
    assert c.pid != b.pid
    assert alive(c.pid)


def test_workers_end_with_the_last_connection_and_new_ones_come(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    homes = {a.run(0), b.run(1), a.run(2), b.run(3)}
    a.sock.close()
    b.sock.close()
    await_end(*homes)
    c = pool.connect()
    assert c.run(0) not in homes


def test_a_worker_ends_after_one_task_where_workers_are_not_used_again(start) -> None:
    pool = start(reuse=False)
    a = pool.connect()
    first = a.run(0, END)
    a.sock.close()
    pool.hears()
    await_end(first)
    assert pool.connect().run(0, END) != first


def test_the_author_s_code_reads_nothing_from_what_spark_says_to_the_daemon(start) -> None:
    pool = start()
    a = pool.connect()
    assert a.run(0, READ) == 0
    pool.end()


def test_all_end_when_spark_closes_the_daemon_s_input(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    homes = [a.run(0), b.run(1)]
    pool.end()
    await_end(*homes)


def test_workers_end_when_the_daemon_is_killed(start) -> None:
    pool = start()
    a, b = pool.connect(), pool.connect()
    homes = [a.run(0), b.run(1)]
    pool.process.kill()
    await_end(*homes)
