"""Asks the executors of a cluster whether their interpreter can run our workers, before a job writes anything.

A Python task cannot ask: Spark starts the workers' daemon (`spark.python.daemon.module`) for it, which is ours. If that
cannot be imported, the task fails with an error of Spark's own that does not say why. So the JVM of each executor runs
the interpreter as a program and reads what it prints.
"""

import json
import re
import sys
from importlib.metadata import version
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from state_engine.errors import SessionError

_SCRIPT = """
import glob, json, os, socket, sys
home = os.environ.get("SPARK_HOME", "")
sys.path += [os.path.join(home, "python"), *glob.glob(os.path.join(home, "python", "lib", "py4j-*.zip"))]
said = {"host": socket.gethostname(), "python": sys.executable, "version": "%d.%d" % sys.version_info[:2]}
try:
    import state_engine.spark.worker.daemon
    from importlib.metadata import version
    said["lakestate"] = version("lakestate")
except BaseException as error:
    said["error"] = type(error).__name__ + ": " + str(error)
print(json.dumps(said))
"""

_ASKED: set[str] = set()
"""Applications of Spark whose executors have answered well; a process has one at a time."""

_NEVER_AGAIN = "java.net.UnixDomainSocketAddress.of"
"""Where Spark fails, by a null pointer, in an executor in which the workers' daemon did not start before."""
_NO_WORKERS = re.compile(rf"PythonWorkerFactory|{re.escape(_NEVER_AGAIN)}")


class Answer(NamedTuple):
    """What the interpreter of an executor says of itself; `error` is why it cannot run our workers."""

    host: str
    python: str
    version: str
    lakestate: str = ""
    error: str = ""


def check_executors(spark: SparkSession, *, again: bool = False) -> None:
    """Checks that the executors of a cluster can run the workers of a job.

    Args:
        spark: The session; if its master is this machine, there is nothing to ask.
        again: Ask although the executors of this application have been asked.

    Raises:
        SessionError: One cannot; it says which host, and why.
    """
    context = spark.sparkContext
    if is_this_machine(context.master) or (context.applicationId in _ASKED and not again):
        return
    for answer in ask(spark):
        complain(answer, context.pythonExec)
    _ASKED.add(context.applicationId)


def check_workers_start(spark: SparkSession, failure: str) -> None:
    """Asks the executors again, others may have come, if a failure of Spark looks as if workers did not start.

    Args:
        spark: The session.
        failure: Spark's text.

    Raises:
        SessionError: An executor cannot run our workers; or it could not before, and Spark does not try again.
    """
    if not _NO_WORKERS.search(failure):
        return
    check_executors(spark, again=True)
    if _NEVER_AGAIN in failure:
        raise SessionError(
            "The Python workers of an executor did not start, and Spark never starts them again in that executor.",
            action="Restart the executor, or stop the session and make a new one; then start the job again.",
        )


def is_this_machine(master: str | None) -> bool:
    """Returns whether the tasks of a master run in the driver's own process."""
    return master is None or master == "local" or master.startswith("local[")


def ask(spark: SparkSession) -> set[Answer]:
    """Runs the executors' interpreter, once for each task slot that there is.

    Raises:
        SessionError: It does not start.
    """
    context: Any = spark.sparkContext
    slots = max(2, context.defaultParallelism)
    command, numbers = context._jvm.java.util.ArrayList(), context._jvm.java.util.ArrayList()
    for word in (context.pythonExec, "-c", _SCRIPT):
        command.add(word)
    for number in range(slots):
        numbers.add(number)
    try:
        lines = context._jsc.parallelize(numbers, slots).pipe(command).collect()
    except Py4JJavaError as error:
        raise _unstarted(context.pythonExec, error) from None
    return {Answer(**json.loads(line)) for line in lines if line.startswith("{")}


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
        raise SessionError(f"{where} has another version than the driver, {ours}.", action=_REMEDY)
    if answer.lakestate != version("lakestate"):
        raise SessionError(
            f"{where} has Lakestate {answer.lakestate}, the driver {version('lakestate')}.", action=_REMEDY
        )


def _unstarted(python: str, error: Any) -> SessionError:
    lines = str(error.java_exception).splitlines()
    causes = [line.strip() for line in lines if "Cannot run program" in line or "Subprocess exited" in line]
    reason = (causes or lines or [""])[0]
    return SessionError(f"The executors cannot start their interpreter {python}: {reason}", action=_REMEDY)


_REMEDY = (
    "Install the driver's Lakestate on each machine of the cluster, for the driver's version of Python, and name that "
    "interpreter by cluster_session(..., python=...); or let Spark send a packed environment, by environment=."
)

__all__ = ["Answer", "ask", "check_executors", "check_workers_start", "complain", "is_this_machine"]
