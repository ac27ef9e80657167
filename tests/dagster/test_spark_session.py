"""The session of bounded runs: none before it is asked for, none behind the run. In a process of its own."""

import os
import subprocess
import sys

import pytest

from lakestate.resources import SparkSessionResource
from state_engine.errors import JobDefinitionError
from state_engine.savepoint import list_savepoints

RUN = """
import sys
import dagster as dg
from lakestate.resources import SparkSessionResource
from state_engine.savepoint import trigger_savepoint

spark = SparkSessionResource(master="local[1]")

@dg.asset
def quiet(spark: SparkSessionResource):
    assert not spark.is_started

@dg.asset
def written(spark: SparkSessionResource):
    writer = spark.savepoint_writer()
    assert spark.is_started
    assert spark.session.range(5).count() == 5
    trigger_savepoint(sys.argv[1], "flights", kind="canonical", writer=writer)

assert dg.materialize([quiet], resources={"spark": spark}).success
assert "pyspark" not in sys.modules, "a run that does not use it starts no JVM, and does not even import Spark"
assert dg.materialize([written], resources={"spark": spark}).success
from pyspark import SparkContext
assert SparkContext._active_spark_context is None, "the session ends with the run"
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_has_a_session_that_ends_with_it(stream):
    stream.checkpoints(1, 2)
    done = subprocess.run(
        [sys.executable, "-c", RUN, stream.state_store.root],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert [savepoint.kind for savepoint in list_savepoints(stream.state_store.root, "flights")] == ["canonical"]


def test_a_session_has_a_master_or_a_remote_server():
    with pytest.raises(JobDefinitionError, match="either a master or a remote server"):
        _ = SparkSessionResource(master="local[1]", remote="sc://127.0.0.1").session


def test_tasks_of_ours_do_not_go_over_spark_connect():
    with pytest.raises(JobDefinitionError, match="not written over Spark Connect"):
        SparkSessionResource(remote="sc://127.0.0.1").savepoint_writer()
