"""Asks the executors of a cluster whether their interpreter can run our workers, before a job writes anything.

A Python task cannot ask: Spark starts the workers' daemon (`spark.python.daemon.module`) for it, which is ours. If that
cannot be imported, the task fails with an error of Spark's own that does not say why. So the JVM of each executor runs
the interpreter as a program and reads what it prints.
"""

import json
import logging
import re
import sys
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from state_engine import __version__
from state_engine.errors import SessionError
from state_engine.spark.session.local import CLUSTER_DEFAULTS

_log = logging.getLogger(__name__)

LIMIT_S = 180
"""How long a start waits for the executors' answers; a cluster may have to start them first."""

MOST = 64
"""How many executors are asked at most: each answer is an interpreter with all imports."""

_DAEMON = "spark.python.daemon.module"
_MARK = "lakestate-says:"

_SCRIPT = f"""
import glob, json, os, socket, sys
home = os.path.join(os.environ.get("SPARK_HOME", ""), "python")
sys.path[1:1] = [os.path.join(home, "lib", "pyspark.zip"), *glob.glob(os.path.join(home, "lib", "py4j-*.zip")), home]
said = {{"host": socket.gethostname(), "python": sys.executable, "version": "%d.%d" % sys.version_info[:2]}}
try:
    import state_engine, state_engine.spark.worker.daemon
    said["lakestate"] = state_engine.__version__
except BaseException as error:
    said["error"] = type(error).__name__ + ": " + str(error)
print("{_MARK}" + json.dumps(said))
"""

_asked: set[tuple[str, str]] = set()
"""Applications of Spark, and the executors of each, that have answered well."""

_NULL_ADDRESS = "java.net.UnixDomainSocketAddress.of"
"""Where Spark fails, by a null pointer, in an executor in which the workers' daemon did not start before."""
_NO_WORKERS = re.compile(rf"PythonWorkerFactory|{re.escape(_NULL_ADDRESS)}")
_NO_PROGRAM = re.compile(r"(Cannot run program|Subprocess exited).*")


class Answer(NamedTuple):
    """What the interpreter of an executor says of itself; `error` is why it cannot run our workers."""

    host: str
    python: str
    version: str
    lakestate: str = ""
    error: str = ""


def check_executors(spark: SparkSession, *, again: bool = False) -> None:
    """Checks that the executors that a cluster has now can run the workers of a job.

    Args:
        spark: The session. If its master is this machine, or its workers' daemon is Spark's own, there is nothing to
            ask.
        again: Ask although these executors have been asked.

    Raises:
        SessionError: One cannot; it says which host, and why.
    """
    context: Any = spark.sparkContext
    if is_this_machine(context.master) or spark.conf.get(_DAEMON, None) != CLUSTER_DEFAULTS[_DAEMON]:
        return
    new = {(context.applicationId, name) for name in _executors(context)} - _asked
    if not (again or new or not _executors(context)):
        return
    for answer in ask(spark):
        complain(answer, context.pythonExec)
    _asked.update((context.applicationId, name) for name in _executors(context))


def check_workers_start(spark: SparkSession, failure: str) -> None:
    """Asks the executors again, others may have come, if a failure of Spark looks as if workers did not start.

    Args:
        spark: The session.
        failure: Spark's text.

    Raises:
        SessionError: An executor cannot run our workers; or it could not before, and fails since.
    """
    if not _NO_WORKERS.search(failure):
        return
    try:
        check_executors(spark, again=True)
    except Py4JError as error:  # the failure that is there says more than that there is no answer
        _log.warning("The executors were not asked why their workers did not start: %s", type(error).__name__)
        return
    if _NULL_ADDRESS in failure:
        raise SessionError(
            "The Python workers of an executor did not start before, and Spark has started none there since.",
            action="Restart the executor, or stop the session and make a new one; then start the job again.",
        )


def is_this_machine(master: str | None) -> bool:
    """Returns whether the tasks of a master run in the driver's own process."""
    return master is None or master == "local" or master.startswith("local[")


def ask(spark: SparkSession) -> set[Answer]:
    """Runs the interpreter once for each executor that there is, or once if the first one is still to come.

    Raises:
        SessionError: It does not start, or nothing has answered within `LIMIT_S` seconds.
    """
    context: Any = spark.sparkContext
    count = min(max(1, len(_executors(context))), MOST)
    command, numbers = context._jvm.java.util.ArrayList(), context._jvm.java.util.ArrayList()
    for word in (context.pythonExec, "-c", _SCRIPT):
        command.add(word)
    for number in range(count):
        numbers.add(number)
    asked = context._jsc.parallelize(numbers, count).pipe(command).collectAsync()
    try:
        lines = asked.get(LIMIT_S, context._jvm.java.util.concurrent.TimeUnit.SECONDS)
    except Py4JJavaError as error:
        text = str(error)
        if "TimeoutException" in text:
            asked.cancel(True)
            raise SessionError(
                f"No executor of {context.master} has answered for {LIMIT_S} s.",
                action="Look whether the cluster has room for an executor, and whether executors reach this driver.",
            ) from None
        if (found := _NO_PROGRAM.search(text)) is None:
            raise
        raise SessionError(
            f"The executors cannot start their interpreter {context.pythonExec}: {found[0]}", action=_REMEDY
        ) from None
    answers = {Answer(**json.loads(line.removeprefix(_MARK))) for line in lines if line.startswith(_MARK)}
    if not answers:
        raise SessionError(f"The executors' interpreter {context.pythonExec} has said nothing.", action=_REMEDY)
    return answers


def complain(answer: Answer, python: str) -> None:
    """Refuses an executor that cannot run our workers.

    Raises:
        SessionError: It cannot.
    """
    where = f"The executors' interpreter {python} ({answer.python}, Python {answer.version}) on host {answer.host}"
    if answer.error:
        raise SessionError(f"{where} cannot run Lakestate: {answer.error}.", action=_REMEDY)
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if answer.version != ours:
        raise SessionError(f"{where} is not of the driver's version, {ours}.", action=_REMEDY)
    if answer.lakestate != __version__:
        raise SessionError(f"{where} has Lakestate {answer.lakestate}; the driver has {__version__}.", action=_REMEDY)


def _executors(context: Any) -> list[str]:
    ids = context._jsc.sc().getExecutorIds()
    return [ids.apply(place) for place in range(ids.size())]


_REMEDY = (
    "Install the driver's Lakestate on each machine of the cluster, for the driver's version of Python. Then make the "
    "session anew and name that interpreter, cluster_session(..., python=...); or let Spark send a packed "
    "environment, by environment=."
)

__all__ = ["LIMIT_S", "Answer", "ask", "check_executors", "check_workers_start", "complain", "is_this_machine"]
