"""The process from which Spark forks its Python workers, with our imports done once for all of them.

A worker that imports pyarrow, pandas and the task runner by itself needs a second or more before its first record;
forked workers also share that memory. Spark runs this module in place of `pyspark.daemon`
(`spark.python.daemon.module`). Memory that a worker has freed it keeps for the next epoch (`allocator`).

Each task goes to the worker that has had its partition before (`worker_pool`), if Spark and its workers talk by files
(`spark.python.unix.domain.socket.enabled`); over TCP, where a connection begins with a secret, Spark's own daemon runs.

A worker that ends in order closes the functions that it holds. Spark's own ends by `os._exit`, without that.
"""

import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import Any

import pandas as _pandas  # noqa: F401  # pyarrow loads it with the first array
from pyspark import daemon

import state_engine.spark.worker.task as _task  # noqa: F401
from state_engine.spark.worker.allocator import keep_memory
from state_engine.spark.worker.cache import WORKER
from state_engine.spark.worker.pool import WorkerPool, serve_tasks

_run_worker = daemon.worker
_HANGUP = {signal.SIGHUP}


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs tasks as Spark's own does, and closes what the worker holds when it runs no more.

    Called by a worker process after the fork, again behind each task.
    """
    _end_on_hangup()
    going_on = False
    try:
        code = _run_worker(sock, authenticated)
        going_on = not code
    finally:
        if not going_on:
            WORKER.close()
    return code


def _end_on_hangup() -> None:
    """Lets a hang-up, by which the daemon ends its workers, end this one by way of `worker`.

    Spark sets that signal back to its default, to die at once, in front of its own `main`. So it waits, from the end of
    a task until `main` reads the next one: a session that is stopped right behind its last task hits that moment.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANGUP)
    import pyspark.worker as of_spark  # behind the fork, as Spark's own does

    if not hasattr(of_spark, "_lakestate_main"):
        run = of_spark._lakestate_main = of_spark.main  # type: ignore[attr-defined]

        def main(infile: Any, outfile: Any) -> None:
            signal.signal(signal.SIGHUP, _end)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANGUP)
            try:
                run(infile, outfile)
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, _HANGUP)

        of_spark.main = main


def _end(signal_number: int, frame: Any) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise SystemExit(1)


daemon.worker = worker


def manager() -> None:
    """Serves one Spark process, which says by variables of the environment how, until it closes our standard input."""
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
    # Spark's limit on the memory of all workers is shared out among as many as there are task slots.
    grows = reuse and "PYSPARK_EXECUTOR_MEMORY_MB" not in os.environ
    here = os.getpid()
    try:
        WorkerPool(listener, sys.stdin.fileno(), lambda channel: _work(channel, reuse), grows=grows).serve()
    finally:
        if os.getpid() == here:
            place.unlink(missing_ok=True)
            os.killpg(0, signal.SIGHUP)


def _work(channel: socket.socket, reuse: bool) -> int:
    try:
        return serve_tasks(channel, lambda sock: worker(sock, True), WORKER.let_ended_go, reuse=reuse)
    finally:
        WORKER.close()


if __name__ == "__main__":
    manager()
