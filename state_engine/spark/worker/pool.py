"""The Python workers of a host, and the connections by which Spark gives them tasks.

Spark takes any of its idle connections for a task. With Spark's own daemon each connection belongs to one worker. Then
a subtask comes to another worker again and again, which has to catch up with what the others have sealed, and in the
end each worker holds all state. Here the daemon keeps the connections. It looks at the first thing that Spark writes
for a task, the number of its partition, and hands the connection to the worker that has had that partition (`Homes`).

Spark identifies a connection by the process id that it gets when it connects. If a task is cancelled, Spark asks to
kill that process; the daemon then kills the worker that has the connection at that time.
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
        channel: Sends it connections, as file descriptors; the worker reports there when it is done.
        serves: The connection of the task that it runs.
    """

    pid: int
    channel: socket.socket
    serves: "Connection | None" = None


@dataclass(eq=False)
class Connection:
    """A connection, which Spark takes for one worker.

    Attributes:
        sock: The connection.
        pid: The process id that Spark was given for it.
        server: The worker that runs its task.
    """

    sock: socket.socket
    pid: int
    server: Worker | None = None


class WorkerPool:
    """Serves Spark's connections with workers that it forks.

    Args:
        listener: Where Spark connects.
        control: File descriptor through which Spark names processes to kill, and which it closes in the end.
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
        """Serves until Spark has closed `control`."""
        while self._control in self._selector.get_map():
            # One event at a time: handling it may remove the worker or connection of the next one.
            for key, _ in self._selector.select()[:1]:
                key.data()
            self._ending = {pid for pid in self._ending if reaped(pid) is None}

    def _watch(self, file: Any, do: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, do)

    def _ask(self) -> None:
        """Kills the worker of a connection because Spark asks for it, or ends because Spark has closed `control`."""
        request = os.read(self._control, _NUMBER.size)
        while request and len(request) < _NUMBER.size:
            more = os.read(self._control, _NUMBER.size - len(request))
            request = request + more if more else b""
        if not request:
            self._selector.unregister(self._control)
            return
        [pid] = _NUMBER.unpack(request)
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
        """Accepts a connection, because Spark wants one more worker; its process id is that of no other connection."""
        sock, _ = self._listener.accept()
        used_pids = {connection.pid for connection in self._connections}
        worker = next((worker for worker in self._homes.idle() if worker.pid not in used_pids), None)
        try:
            worker = worker or self._fork(sock)
            sock.sendall(_NUMBER.pack(worker.pid))
        except OSError as error:  # no more processes can be made, or Spark has gone
            traceback.print_exc()
            with sock, contextlib.suppress(OSError):
                sock.sendall(_NUMBER.pack(-(error.errno or 1)))
            return
        connection = Connection(sock, worker.pid)
        self._connections.append(connection)
        self._watch(sock, lambda: self._hand_over(connection))

    def _hand_over(self, connection: Connection) -> None:
        """Gives a connection to a worker because Spark writes a task, or ends it because Spark has closed it."""
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
        with contextlib.suppress(OSError):  # the worker has just died, and its channel reports that next
            socket.send_fds(worker.channel, [_TASK], [connection.sock.fileno()])

    def _worker_for(self, partition: int) -> Worker | None:
        """Returns a worker for a task. None if none is idle and no more can be forked: one task fails, not all."""
        try:
            return self._homes.choose(partition, len(self._connections)) or self._fork()
        except OSError:
            traceback.print_exc()
            return next(iter(self._homes.idle()), None)

    def _hear(self, worker: Worker) -> None:
        """Handles that a worker is done with its task, or has ended."""
        try:
            message = worker.channel.recv(len(_DONE))
        except ConnectionError:
            message = b""
        connection, worker.serves = worker.serves, None
        if message:
            self._homes.end(worker)
        else:
            self._forget(worker)
            self._leave_cause(worker, connection)
        if connection is None:
            return
        connection.server = None
        if message:
            self._watch(connection.sock, lambda: self._hand_over(connection))
        else:
            self._drop(connection)  # Spark sees the connection closed, as if it had been the worker's own

    def _leave_cause(self, worker: Worker, connection: Connection | None) -> None:
        """Writes how a worker died into the file that Spark adds to its message, after the traceback, if there is one.

        Spark reads the file if `spark.python.worker.faulthandler.enabled` is set.
        """
        if self._tracebacks is None or connection is None:
            return  # nothing reads the cause; `serve` reaps the worker
        status = exit_status(worker.pid)
        if status is not None:
            self._ending.discard(worker.pid)
        with contextlib.suppress(OSError):
            traceback_file = self._tracebacks / str(worker.pid)
            if status:
                with traceback_file.open("a") as file:
                    file.write(f"{exit_line(worker.pid, status)}\n")
                traceback_file.replace(self._tracebacks.parent / str(connection.pid))
            else:
                traceback_file.unlink(missing_ok=True)

    def _close(self, connection: Connection) -> None:
        """Closes an idle connection; with the last one idle workers end, as Spark wants of workers without a task."""
        self._selector.unregister(connection.sock)
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._connections.remove(connection)
        # The shutdown also works if a process that the author's code has started holds a copy.
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
        connection.sock.close()
        if not self._connections:
            for worker in self._homes.idle():
                self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        """Ends a worker by closing its channel, and forgets it."""
        self._selector.unregister(worker.channel)
        worker.channel.close()
        self._ending.add(worker.pid)
        self._workers.remove(worker)
        self._homes.remove(worker)

    def _fork(self, accepted: socket.socket | None = None) -> Worker:
        """Makes a new worker.

        Raises:
            OSError: No process can be made.
        """
        pool_end, worker_end = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            pool_end.close()
            worker_end.close()
            raise
        if not pid:
            self._begin(worker_end, [pool_end, *([accepted] if accepted is not None else [])])
        worker_end.close()
        worker = Worker(pid, pool_end)
        self._workers.add(worker)
        self._homes.add(worker)
        self._watch(pool_end, lambda: self._hear(worker))
        return worker

    def _begin(self, channel: socket.socket, others: list[socket.socket]) -> NoReturn:
        """Begins a worker after its fork.

        It keeps no descriptor of the daemon: while a copy is open, no peer sees that the others were closed.
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
                empty_input = os.open(os.devnull, os.O_RDONLY)  # the author's code may read its standard input
                os.dup2(empty_input, self._control)
                os.close(empty_input)
                code = self._work(channel)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def _own_tracebacks() -> Path | None:
    """Returns the folder for the tracebacks of dying workers.

    It is not Spark's own folder: there a file has as its name the process id that Spark was given.
    """
    folder = os.environ.get(_TRACEBACKS)
    return None if folder is None else Path(folder, f"workers-{os.getpid()}")


def serve_tasks(
    channel: socket.socket, run: Callable[[socket.socket], int], behind: Callable[[], None], *, reuse: bool
) -> int:
    """Runs the tasks of a worker, until no more come; returns its exit code.

    Args:
        channel: Brings connections, each with a task in it.
        run: Runs one task; returns other than 0 if the worker is to end.
        behind: Tidies up after a task, when nothing waits for the worker.
        reuse: Whether the worker runs more than one task.
    """
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(channel, len(_TASK), 1)
        except ConnectionError:  # the daemon was killed
            return 0
        if not descriptors:
            return 0
        os.set_inheritable(descriptors[0], False)  # an accepted descriptor is so already, a received one is not
        with socket.socket(fileno=descriptors[0]) as sock:
            code = run(sock)
            if code or not reuse:
                _await_end(sock)
                return code
        channel.sendall(_DONE)
        behind()
        GARBAGE.collect()


def _await_end(sock: socket.socket) -> None:
    """Waits until Spark has read the result: it then closes a connection that is not to be used again."""
    with contextlib.suppress(OSError):
        while sock.recv(1024):
            pass


__all__ = ["WorkerPool", "serve_tasks"]
