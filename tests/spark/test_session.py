"""The local session: its settings take effect, and Delta works with only Delta's own jars."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from state_engine.spark.session import local as session_module
from state_engine.spark.session.local import CLUSTER_DEFAULTS, LOCAL_DEFAULTS, local_session


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "delta_jars", lambda folder: [Path("/jars/a.jar"), Path("/jars/b.jar")])


@pytest.mark.usefixtures("no_jars")
def test_extra_settings_have_the_last_word() -> None:
    settings = session_module.session_settings(
        None, 4, "1g", {"spark.ui.enabled": "true", "spark.sql.warehouse.dir": "/w"}
    )
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.warehouse.dir"] == "/w"
    assert settings["spark.sql.shuffle.partitions"] == "4"
    assert settings["spark.driver.memory"] == "1g"
    assert settings["spark.jars"] == "/jars/a.jar,/jars/b.jar"


@pytest.mark.usefixtures("no_jars")
def test_tables_without_a_path_do_not_land_in_the_working_directory() -> None:
    warehouse = Path(session_module.session_settings(None, 2, "1g", {})["spark.sql.warehouse.dir"])
    assert warehouse.is_dir()
    assert not warehouse.is_relative_to(Path.cwd())


def test_the_defaults_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        LOCAL_DEFAULTS["spark.ui.enabled"] = "true"  # type: ignore[index]


def test_a_cluster_is_told_nothing_of_this_machine() -> None:
    assert CLUSTER_DEFAULTS.items() < LOCAL_DEFAULTS.items()
    assert not [key for key in CLUSTER_DEFAULTS if key.startswith("spark.driver.")]
    assert not [value for value in CLUSTER_DEFAULTS.values() if "127.0.0.1" in value]
    assert CLUSTER_DEFAULTS["spark.python.daemon.module"] == "state_engine.spark.worker.daemon"


@pytest.mark.spark
@pytest.mark.parametrize("key", sorted(LOCAL_DEFAULTS))
def test_every_default_arrives(spark: SparkSession, key: str) -> None:
    assert spark.conf.get(key) == LOCAL_DEFAULTS[key]


@pytest.mark.spark
def test_a_second_call_returns_the_session_of_the_process(spark: SparkSession) -> None:
    assert local_session("another name").sparkContext is spark.sparkContext


@pytest.mark.spark
def test_the_checkpoint_file_manager_exists_in_this_spark(spark: SparkSession) -> None:
    name = LOCAL_DEFAULTS["spark.sql.streaming.checkpointFileManagerClass"]
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    assert loader.loadClass(name).getName() == name


@pytest.mark.spark
def test_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    def executable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"path": [sys.executable] * batch.num_rows})

    rows = spark.range(2).mapInArrow(executable, "path string").collect()
    assert {row.path for row in rows} == {sys.executable}


@pytest.mark.spark
def test_workers_import_both_packages_and_the_standard_platform(spark: SparkSession) -> None:
    def modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import platform

        import lakestate.assets
        import lakestate.examples
        import lakestate.resources
        import state_engine

        packages = [lakestate.assets, lakestate.resources, lakestate.examples, state_engine]
        for batch in batches:
            text = " ".join([platform.python_version(), *(module.__name__ for module in packages)])
            yield pa.RecordBatch.from_pydict({"text": [text] * batch.num_rows})

    [row] = spark.range(1).mapInArrow(modules, "text string").collect()
    assert row.text.split()[1:] == ["lakestate.assets", "lakestate.resources", "lakestate.examples", "state_engine"]


@pytest.mark.long  # test_changed_sources.py streams from a Delta table, all others write some
@pytest.mark.spark
def test_delta_is_written_read_and_streamed(spark: SparkSession, tmp_path: Path) -> None:
    source, sink, checkpoint = (str(tmp_path / name) for name in ("source", "sink", "checkpoint"))
    spark.range(10).write.format("delta").save(source)
    spark.range(10, 15).write.format("delta").mode("append").save(source)
    query = (
        spark.readStream.format("delta")
        .load(source)
        .mapInArrow(lambda batches: batches, "id long")
        .writeStream.format("delta")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(sink)
    )
    assert query.awaitTermination(120)
    assert spark.read.format("delta").load(sink).count() == 15
    assert spark.read.format("delta").option("versionAsOf", 0).load(source).count() == 10


@pytest.mark.long
@pytest.mark.spark
def test_delta_tables_are_made_and_merged_by_sql(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {table} (k BIGINT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 2L AS k, 'c' AS v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET t.v = s.v"
    )
    assert [tuple(row) for row in spark.sql(f"SELECT * FROM {table} ORDER BY k").collect()] == [(1, "a"), (2, "c")]
