"""The Spark session of bounded runs: none before it is needed, none after the run. In a process of its own."""

import os
import socket
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestate.resources import SparkSessionResource
from state_engine.errors import JobDefinitionError
from state_engine.savepoint import list_savepoints, validate_savepoint

RUN = """
import sys
import dagster as dg
from lakestate.assets import build_savepoint_asset
from lakestate.resources import RestClientResource, SparkSessionResource, StateStoreResource

root, master = sys.argv[1:]
spark = SparkSessionResource(master=master)
resources = {
    "state_store": StateStoreResource(root=root),
    "rest_client": RestClientResource(root=root),
    "spark_session": spark,
}

@dg.asset
def quiet(spark: SparkSessionResource):
    assert not spark.is_started

assert dg.materialize([quiet], resources={"spark": spark}).success
assert "pyspark" not in sys.modules, "a run that does not use it starts no JVM, and does not even import Spark"
config = {"ops": {"flights__savepoint": {"config": {"kind": "canonical", "by_spark": True}}}}
with dg.DagsterInstance.ephemeral() as instance:
    instance.add_dynamic_partitions("flights_savepoints", ["large"])
    asset = [build_savepoint_asset("flights")]
    dg.materialize(asset, instance=instance, partition_key="large", run_config=config, resources=resources)
from pyspark import SparkContext
assert SparkContext._active_spark_context is None, "the session ends with the run"
"""

SERVER = """
import sys
from pyspark.sql import SparkSession

settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": sys.argv[1],
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""

CLIENT = """
import sys
import dagster as dg
from lakestate.resources import SparkSessionResource

@dg.asset
def counted(spark: SparkSessionResource):
    assert type(spark.session).__module__.startswith("pyspark.sql.connect")
    return spark.session.read.parquet(sys.argv[2]).count()

spark = SparkSessionResource(remote=f"sc://127.0.0.1:{sys.argv[1]}")
result = dg.materialize([counted], resources={"spark": spark})
print("rows", result.output_for_node("counted"))
assert not spark.is_started, "the session ends with the run"
"""


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[1]", pytest.param("local-cluster[1,1,1024]", marks=pytest.mark.long)])
def test_a_savepoint_by_spark_has_a_session_that_ends_with_its_run(stream, master):
    stream.checkpoints(1, 2)
    root = stream.state_store.root
    command = [sys.executable, "-c", RUN, root, master]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    (taken,) = list_savepoints(root, "flights")
    assert (taken.kind, taken.label) == ("canonical", "large")
    assert validate_savepoint(root, "flights", taken.savepoint_id).findings == ()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_run_counts_rows_over_spark_connect(tmp_path):
    pq.write_table(pa.table({"n": range(7)}), tmp_path / "rows.parquet")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen([sys.executable, "-c", SERVER, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == b"ready\n"
        command = [sys.executable, "-c", CLIENT, port, str(tmp_path / "rows.parquet")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
    finally:
        server.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert "rows 7" in done.stdout


def test_a_session_has_a_master_or_a_remote_server():
    with pytest.raises(JobDefinitionError, match="either a master or a remote server"):
        _ = SparkSessionResource(master="local[1]", remote="sc://127.0.0.1").session


def test_tasks_of_ours_do_not_go_over_spark_connect():
    with pytest.raises(JobDefinitionError, match="cannot be written over Spark Connect"):
        SparkSessionResource(remote="sc://127.0.0.1").savepoint_writer()
