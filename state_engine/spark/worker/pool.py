"""The Python workers of a host, and the connections by which Spark gives them tasks.

Spark takes any of its idle connections for a task. Where each belongs to one worker, as with Spark's own daemon, a
subtask comes to another worker again and again, which has to catch up with what the others have sealed, and in the end
each holds all state. Here the daemon keeps the connections, looks at the first thing that Spark writes for a task, the
number of its partition, and hands the connection to the worker that has had that partition (`Homes`).

Spark knows a connection by the process id that it is told when it connects, and asks for that process to be killed if
the task is cancelled: what is killed is the worker that has the connection then.
"""

import contextlib
import os
import selectors
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pyspark.util import enable_faulthandler

from state_engine.spark.wire.exits import exit_line, exit_status, reaped
from state_engine.spark.worker.garbage import GARBAGE
from state_engine.spark.worker.homes import Homes

_NUMBER = struct.Struct("!i")
_TASK, _DONE = b"t", b"d"
_UNKNOWN = -1
_TRACEBACKS = "PYTHON_FAULTHANDLER_DIR"


@dataclass(eq=False)
class Worker:
    """A worker process.

    Attributes:
        pid: Its process id.
        channel: Connections go there by their file descriptors, and it says when it is done.
        serves: The connection whose task it runs.
    """

    pid: int
    channel: socket.socket
    serves: "Connection | None" = None


@dataclass(eq=False)
class Connection:
    """What Spark takes for one worker.

    Attributes:
        sock: The connection.
        pid: What Spark was told.
        server: The worker that runs its task.
    """

    sock: socket.socket
    pid: int
    server: Worker | None = None


class WorkerPool:
    """Serves Spark's connections by workers that it forks.

    Args:
        listener: Where Spark connects.
        control: File descriptor at which Spark names what to kill, and which it closes in the end.
        work: What a worker does, from its fork to its end: it gets its channel, and returns its exit code.
        grows: Whether there may be more workers than connections.
    """

    def __init__(
        self, listener: socket.socket, control: int, work: Callable[[socket.socket], int], *, grows: bool
    ) -> None:
        self._listener = listener
        self._control = control
        self._work = work
        self._homes: Homes[Worker] = Homes(grows=grows)
        self._workers: set[Worker] = set()
        self._connections: list[Connection] = []
        self._ending: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._watch(listener, self._connect)
        self._watch(control, self._ask)
        self._tracebacks = _own_tracebacks()
        if self._tracebacks is not None:
            self._tracebacks.mkdir(exist_ok=True)

    def serve(self) -> None:
        """Returns when Spark has closed the control."""
        while self._control in self._selector.get_map():
            # One event at a time: what it does may end the subject of the next one.
            for key, _ in self._selector.select()[:1]:
                key.data()
            self._ending = {pid for pid in self._ending if reaped(pid) is None}

    def _watch(self, file: Any, do: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, do)

    def _ask(self) -> None:
        """Spark wants the worker of a connection killed, or no more of us."""
        asked = os.read(self._control, _NUMBER.size)
        while asked and len(asked) < _NUMBER.size:
            more = os.read(self._control, _NUMBER.size - len(asked))
            asked = asked + more if more else b""
        if not asked:
            self._selector.unregister(self._control)
            return
        [pid] = _NUMBER.unpack(asked)
        for connection in [one for one in self._connections if one.pid == pid]:
            server = connection.server
            if server is None:
                self._close(connection)
                continue
            with contextlib.suppress(ProcessLookupError):  # it has just died by itself
                os.kill(server.pid, signal.SIGKILL)
            self._forget(server)
            self._drop(connection)

    def _connect(self) -> None:
        """Spark wants one worker more: it gets a connection, named by a process that no other one is named by."""
        sock, _ = self._listener.accept()
        named = {connection.pid for connection in self._connections}
        worker = next((worker for worker in self._homes.idle() if worker.pid not in named), None)
        try:
            worker = worker or self._fork(sock)
            sock.sendall(_NUMBER.pack(worker.pid))
        except OSError as error:  # there can be no process more, or Spark has gone
            traceback.print_exc()
            with sock, contextlib.suppress(OSError):
                sock.sendall(_NUMBER.pack(-(error.errno or 1)))
            return
        connection = Connection(sock, worker.pid)
        self._connections.append(connection)
        self._watch(sock, lambda: self._hand_over(connection))

    def _hand_over(self, connection: Connection) -> None:
        """Spark has begun to write a task, or has closed the connection."""
        try:
            head = connection.sock.recv(_NUMBER.size, socket.MSG_PEEK)
        except ConnectionError:
            head = b""
        if not head:
            self._close(connection)
            return
        partition = _NUMBER.unpack(head)[0] if len(head) == _NUMBER.size else _UNKNOWN
        worker = self._worker_for(partition)
        if worker is None:
            self._close(connection)
            return
        self._homes.begin(partition, worker)
        self._selector.unregister(connection.sock)
        connection.server, worker.serves = worker, connection
        with contextlib.suppress(OSError):  # it has just died, and its channel says so next
            socket.send_fds(worker.channel, [_TASK], [connection.sock.fileno()])

    def _worker_for(self, partition: int) -> Worker | None:
        """Returns an idle worker; None if none is, and there can be no process more: that fails one task, not all."""
        try:
            return self._homes.choose(partition, len(self._connections)) or self._fork()
        except OSError:
            traceback.print_exc()
            return next(iter(self._homes.idle()), None)

    def _hear(self, worker: Worker) -> None:
        """A worker is done with its task, or has ended."""
        try:
            told = worker.channel.recv(len(_DONE))
        except ConnectionError:
            told = b""
        connection, worker.serves = worker.serves, None
        if told:
            self._homes.end(worker)
        else:
            self._forget(worker)
            self._leave_cause(worker, connection)
        if connection is None:
            return
        connection.server = None
        if told:
            self._watch(connection.sock, lambda: self._hand_over(connection))
        else:
            self._drop(connection)  # Spark finds the connection closed, as if it had been the worker's own

    def _leave_cause(self, worker: Worker, connection: Connection | None) -> None:
        """Puts how a worker died, and its traceback if it wrote one, where Spark looks for it.

        Spark does so if `spark.python.worker.faulthandler.enabled` is set.
        """
        status = exit_status(worker.pid)
        self._ending.discard(worker.pid)
        if self._tracebacks is None or connection is None:
            return
        with contextlib.suppress(OSError):
            written = self._tracebacks / str(worker.pid)
            if status:
                with written.open("a") as file:
                    file.write(f"{exit_line(worker.pid, status)}\n")
                written.replace(self._tracebacks.parent / str(connection.pid))
            else:
                written.unlink(missing_ok=True)

    def _close(self, connection: Connection) -> None:
        """Ends an idle connection; the workers end with the last one, as Spark wants it of workers without a task."""
        self._selector.unregister(connection.sock)
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._connections.remove(connection)
        with contextlib.suppress(OSError):  # also where a process that the author's code has started holds a copy
            connection.sock.shutdown(socket.SHUT_RDWR)
        connection.sock.close()
        if not self._connections:
            for worker in self._homes.idle():
                self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        """Lets a worker end, which it does when its channel is closed."""
        self._selector.unregister(worker.channel)
        worker.channel.close()
        self._ending.add(worker.pid)
        self._workers.remove(worker)
        self._homes.remove(worker)

    def _fork(self, accepted: socket.socket | None = None) -> Worker:
        """Makes a new worker.

        Raises:
            OSError: There can be none.
        """
        ours, its = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            its.close()
            raise
        if not pid:
            self._begin(its, [ours, *([accepted] if accepted is not None else [])])
        its.close()
        worker = Worker(pid, ours)
        self._workers.add(worker)
        self._homes.add(worker)
        self._watch(ours, lambda: self._hear(worker))
        return worker

    def _begin(self, channel: socket.socket, others: list[socket.socket]) -> NoReturn:
        """Begins a worker behind its fork.

        It keeps no descriptor of the daemon's: while a copy is left, nobody sees that the others were closed.
        """
        code = 1
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._tracebacks is not None:
            os.environ[_TRACEBACKS] = str(self._tracebacks)
        try:
            with enable_faulthandler():
                self._selector.close()
                for sock in (
                    self._listener,
                    *others,
                    *(worker.channel for worker in self._workers),
                    *(connection.sock for connection in self._connections),
                ):
                    sock.close()
                nothing = os.open(os.devnull, os.O_RDONLY)  # the author's code may read its standard input
                os.dup2(nothing, self._control)
                os.close(nothing)
                code = self._work(channel)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def _own_tracebacks() -> Path | None:
    """Returns where our workers write what they die of: in Spark's folder a file is named by what Spark was told."""
    folder = os.environ.get(_TRACEBACKS)
    return None if folder is None else Path(folder, f"workers-{os.getpid()}")


def serve_tasks(
    channel: socket.socket, run: Callable[[socket.socket], int], behind: Callable[[], None], *, reuse: bool
) -> int:
    """Runs the tasks of a worker, until there are no more; returns its exit code.

    Args:
        channel: Connections come there, each with a task in it.
        run: Runs one; returns other than 0 if the worker is to end.
        behind: Tidies up behind one, while nobody waits for it.
        reuse: Whether there is more than one.
    """
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(channel, len(_TASK), 1)
        except ConnectionError:  # the daemon was killed
            return 0
        if not descriptors:
            return 0
        os.set_inheritable(descriptors[0], False)  # as an accepted one is, but not one that was handed over
        with socket.socket(fileno=descriptors[0]) as sock:
            code = run(sock)
            if code or not reuse:
                _await_end(sock)
                return code
        channel.sendall(_DONE)
        behind()
        GARBAGE.collect()


def _await_end(sock: socket.socket) -> None:
    """Waits for Spark to have read what it was told: it closes a connection that is not to be used again."""
    with contextlib.suppress(OSError):
        while sock.recv(1024):
            pass


__all__ = ["WorkerPool", "serve_tasks"]
