"""The process from which Spark forks its Python workers, with our imports done once for all of them.

A worker that imports pyarrow, pandas and the task runner by itself needs a second or more before its first record.
Forked workers also share the memory of the imports. Spark runs this module in place of `pyspark.daemon`
(`spark.python.daemon.module`). A worker keeps memory that it has freed for the next epoch (`allocator`).

Each task goes to the worker that has had its partition before (`pool`). That needs Unix domain sockets between Spark
and its workers (`spark.python.unix.domain.socket.enabled`). Over TCP a connection begins with a secret, and Spark's own
daemon runs.

A worker that ends in order closes the functions that it holds. Spark's own worker ends by `os._exit`, without that.
"""

import contextlib
import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import Any

from pyspark import daemon

import state_engine.spark.worker.task as _task  # noqa: F401
from state_engine.spark.worker.allocator import keep_memory
from state_engine.spark.worker.cache import WORKER
from state_engine.spark.worker.pool import WorkerPool, serve_tasks

with contextlib.suppress(ImportError):  # where it is installed, pyarrow loads it with the first array
    import pandas as _pandas  # noqa: F401

_run_worker = daemon.worker
_HANGUP = {signal.SIGHUP}


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs tasks as Spark's own worker does, and closes what the worker holds when it runs no more of them.

    A worker process calls this after the fork, and again after each task.
    """
    _end_on_hangup()
    goes_on = False
    try:
        code = _run_worker(sock, authenticated)
        goes_on = not code
    finally:
        if not goes_on:
            WORKER.close()
    return code


def _end_on_hangup() -> None:
    """Makes SIGHUP, by which the daemon ends its workers, end this one in order, through `worker`.

    Before its own `main` Spark resets that signal to its default, which is to die at once. So the signal is blocked
    from the end of a task until `main` reads the next one. A session that is stopped right after its last task hits
    that moment.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANGUP)
    import pyspark.worker as spark_worker  # after the fork, as Spark's own worker does

    if not hasattr(spark_worker, "_lakestate_main"):
        run = spark_worker._lakestate_main = spark_worker.main  # type: ignore[attr-defined]

        def main(infile: Any, outfile: Any) -> None:
            signal.signal(signal.SIGHUP, _end)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANGUP)
            try:
                run(infile, outfile)
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, _HANGUP)

        spark_worker.main = main


def _end(signal_number: int, frame: Any) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise SystemExit(1)


daemon.worker = worker


def manager() -> None:
    """Serves one Spark process until it closes our standard input; it configures us by environment variables."""
    keep_memory()
    if os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() != "true":
        daemon.manager()
        return
    os.setpgid(0, 0)
    place = Path(os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"], f".{uuid.uuid4()}.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen(1024)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as out:
        out.write(len(os.fsencode(place)).to_bytes(4) + os.fsencode(place))
    reuse = "SPARK_REUSE_WORKER" in os.environ
    # Spark divides its limit on the memory of all workers by the number of task slots, so there may be no more workers.
    grows = reuse and "PYSPARK_EXECUTOR_MEMORY_MB" not in os.environ
    daemon_pid = os.getpid()
    try:
        WorkerPool(listener, sys.stdin.fileno(), lambda channel: _work(channel, reuse), grows=grows).serve()
    finally:
        if os.getpid() == daemon_pid:
            place.unlink(missing_ok=True)
            os.killpg(0, signal.SIGHUP)


def _work(channel: socket.socket, reuse: bool) -> int:
    try:
        return serve_tasks(channel, lambda sock: worker(sock, True), WORKER.drop_ended, reuse=reuse)
    finally:
        WORKER.close()


if __name__ == "__main__":
    manager()
