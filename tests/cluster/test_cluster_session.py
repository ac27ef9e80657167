"""A session on a cluster: its settings, what is asked of executors, and a job on real ones."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark import SparkContext
from standalone import EXTRA

from lakestate.examples.compare import compare
from lakestate.examples.orders.data import write_files
from lakestate.examples.orders.truth import compute_truth
from state_engine import __version__
from state_engine.errors import SessionError
from state_engine.spark.session import cluster as room
from state_engine.spark.session.cluster import cluster_session, cluster_settings
from state_engine.spark.session.costs import COSTS, costly
from state_engine.spark.session.executors import Answer, check_executors, check_workers_start, complain
from state_engine.spark.session.local import CLUSTER_DEFAULTS
from state_engine.testing.s3_server import S3Server

TABLES = "s3://bucket/tables"
OURS = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "delta_jars", lambda folder: [Path("/jars/a.jar")])
    monkeypatch.setattr(room, "connector_jars", lambda names, folder: [Path(f"/jars/{name}.jar") for name in names])


@pytest.mark.usefixtures("no_jars")
def test_the_settings_of_a_cluster() -> None:
    settings = cluster_settings(connectors=["kafka"], extra={"spark.executor.memory": "4g"})
    assert settings.items() > CLUSTER_DEFAULTS.items()
    assert settings["spark.jars"] == "/jars/a.jar,/jars/kafka.jar"
    more = cluster_settings(environment="env.tar.gz", extra={"spark.jars": "/b.jar", "spark.archives": "d.zip#d"})
    assert more["spark.jars"] == "/jars/a.jar,/b.jar"
    assert more["spark.archives"] == "env.tar.gz#lakestate-environment,d.zip#d"
    assert settings["spark.pyspark.python"] == sys.executable
    assert settings["spark.executor.memory"] == "4g"
    assert not [value for value in settings.values() if "127.0.0.1" in value], "nothing of this machine alone"


@pytest.mark.usefixtures("no_jars")
def test_the_interpreter_of_the_executors() -> None:
    assert cluster_settings("/opt/py/bin/python")["spark.pyspark.python"] == "/opt/py/bin/python"
    sent = cluster_settings(environment="s3a://b/env.tar.gz")
    assert sent["spark.archives"] == "s3a://b/env.tar.gz#lakestate-environment"
    assert sent["spark.pyspark.python"] == "./lakestate-environment/bin/python"
    assert cluster_settings("./x/python", "env.tar.gz")["spark.pyspark.python"] == "./x/python"


def test_an_environment_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"no packed environment '.*env\.tar\.gz'") as caught:
        cluster_session("spark://host:7077", environment=tmp_path / "env.tar.gz")
    assert "conda pack" in caught.value.action


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_this_machine_is_no_cluster(master: str) -> None:
    with pytest.raises(SessionError, match="this machine") as caught:
        cluster_session(master)
    assert "local_session" in caught.value.action


@pytest.mark.usefixtures("no_jars")
def test_a_process_has_one_kind_of_session(monkeypatch: pytest.MonkeyPatch) -> None:
    running = SimpleNamespace(master="local[2]", pythonExec=sys.executable)
    monkeypatch.setattr(SparkContext, "_active_spark_context", running)
    with pytest.raises(SessionError, match=r"already: master 'local\[2\]'"):
        cluster_session("spark://host:7077")
    running.master = "spark://host:7077"
    with pytest.raises(SessionError, match=f"interpreter '{sys.executable}'"):
        cluster_session("spark://host:7077", python="/opt/python")


@pytest.mark.usefixtures("no_jars")
def test_a_jvm_that_had_a_local_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors would look for the driver on their own machines, and wait."""
    system = SimpleNamespace(getProperty=lambda key: "127.0.0.1")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(jvm=SimpleNamespace(System=system)))
    with pytest.raises(SessionError, match=r"keeps the settings of a local session.*127\.0\.0\.1") as caught:
        cluster_session("spark://host:7077")
    assert caught.value.action == "Use a new process."


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": "ModuleNotFoundError: No module named 'state_engine'"}, "on host h1 cannot run Lakestate: Module"),
        ({"version": "3.9"}, rf"Python 3\.9\) on host h1 is not of the driver's version, {OURS}"),
        ({"lakestate": "0.0.1"}, rf"has Lakestate 0\.0\.1; the driver has {__version__}"),
    ],
)
def test_an_executor_that_cannot_run_our_workers_is_named(answer: dict[str, str], said: str) -> None:
    sound = {"host": "h1", "python": "/usr/bin/python3", "version": OURS, "lakestate": __version__}
    complain(Answer(**sound), "python3")
    with pytest.raises(SessionError, match=said) as caught:
        complain(Answer(**{**sound, **answer}), "python3")
    assert "interpreter python3 (/usr/bin/python3" in str(caught.value)
    assert "environment=" in caught.value.action


def test_this_machine_is_asked_nothing() -> None:
    context: Any = SimpleNamespace(master="local[2]", applicationId="local-1")
    check_executors(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type]


def test_failures_of_other_kinds_ask_no_executor() -> None:
    check_workers_start(SimpleNamespace(), "Job aborted due to stage failure")  # type: ignore[arg-type]


def test_an_executor_whose_workers_failed_to_start_is_told_apart() -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", applicationId="local-1"))
    failure = "java.lang.NullPointerException\n\tat java.base/java.net.UnixDomainSocketAddress.of(UnixDomain…)"
    with pytest.raises(SessionError, match="started none there since") as caught:
        check_workers_start(session, failure)
    assert "make a new one" in caught.value.action


def session_with(**settings: str) -> Any:
    values = {**CLUSTER_DEFAULTS, **{key.replace("_", "."): value for key, value in settings.items()}}
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: values.get(key, default)))


def test_settings_that_cost_are_named_with_what_they_cost() -> None:
    assert costly(session_with()) == {}
    assert set(costly(session_with(spark_python_worker_reuse="false"))) == {"spark.python.worker.reuse"}
    nothing: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: default))
    sparks_own = {"spark.python.worker.reuse", "spark.sql.shuffle.orderIndependentChecksum.enabled"}
    assert costly(nothing).keys() == COSTS.keys() - sparks_own
    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert set(costly(session_with(**{limit: "1000"}))) == {limit}
    assert costly(session_with(**{limit: "9223372036854775807"})) == {}


BARE = Path(sys.base_prefix) / "bin" / f"python{OURS}"
"""The interpreter that the environment of the tests was made with: it lacks all packages."""


def run(what: str, cluster: Any, folder: Path) -> dict[str, Any]:
    """Runs a driver on the cluster, in a process of its own; returns what it reports."""
    script = Path(__file__).parent / "cluster_job.py"
    command = [sys.executable, script, what, cluster.address, folder, BARE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_whose_executors_lack_our_code_and_one_by_the_command_line(
    s3: S3Server, cluster: Any, tmp_path: Path
) -> None:
    report = run("refused", cluster, tmp_path)
    assert "cannot run Lakestate: ModuleNotFoundError: No module named 'state_engine'" in report["refusal"]
    assert str(BARE) in report["refusal"]
    assert not report["touched"], "a refused start has written nothing"
    run_orders(cluster, tmp_path)


def run_orders(cluster: Any, folder: Path) -> None:
    """Runs an example job there by the command line, its state and tables in a bucket; compares them with a recount."""
    write_files(32, folder / "orders")  # eight days: until orders are cancelled
    conf = [f"--conf={name}={value}" for name, value in EXTRA.items()]
    places = ["-o", f"input={folder / 'orders'}", "-o", f"tables={TABLES}", "-o", "files_per_epoch=8"]
    command = [Path(sys.executable).parent / "lakestate", "run", "orders", "--root", "s3://bucket/state", *places]
    ran = [*command, "--master", cluster.address, *conf, "--available-now", "--json", "--log", folder / "log"]
    done = subprocess.run(ran, cwd=folder, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr + (folder / "log").read_text()[-5000:]
    events, truth = [json.loads(line) for line in done.stdout.splitlines()], compute_truth(folder / "orders")
    assert sum(event.get("records", 0) for event in events) == truth.records
    for name, expected in truth.outputs.items():
        actual = DeltaTable(f"{TABLES}/{name}").to_pyarrow_table()
        assert expected.num_rows
        assert compare(actual, expected, truth.keys[name]) == (0, 0, 0), name


@pytest.mark.long
@pytest.mark.spark
def test_an_executor_that_joins_and_lacks_our_code_is_named_and_nothing_is_lost(cluster: Any, tmp_path: Path) -> None:
    report = run("joins", cluster, tmp_path)
    first, second = report["errors"]
    assert "SessionError: The executors' interpreter" in first
    assert "cannot run Lakestate: ModuleNotFoundError: No module named 'state_engine'" in first
    assert report["epoch"] == 2, "the epoch that failed was not sealed"
    if second != "NoneType: None":  # Spark starts workers again in such an executor, but not always
        assert "SessionError: The Python workers of an executor did not start before" in second
