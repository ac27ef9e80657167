"""A job that does not fit the state that it would continue from is refused with a reason, and nothing is written.

`tests/epoch/test_compatibility.py` tests every reason, without Spark; here a real job causes each of them.
"""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support import Count, Input, assert_counts, assert_tally, count_job, newest, outputs, run_all, tally_job

from state_engine.api import Types, ValueStateDescriptor
from state_engine.errors import (
    DamagedFileError,
    DamagedManifestError,
    KeyTypeChangedError,
    LakestateError,
    MaxParallelismChangedError,
    MissingFileError,
    NotWritableError,
    SinkError,
    SinkRewindError,
    SourcesChangedError,
    StateTypeChangedError,
    StorageError,
    UnknownOperatorError,
)
from state_engine.log.records import Pin
from state_engine.savepoint import trigger_savepoint
from state_engine.spark import DeltaSink, MemorySink, StreamJob
from state_engine.storage.delta import table_version

pytestmark = pytest.mark.spark


class Text(Count):
    """The same state with another type."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.STRING()))


def refused(root: Path, name: str, error: type[LakestateError], match: str, start: Any) -> None:
    """Starts a job that is refused, and checks that the job's root and all sink tables have not changed."""

    def seen() -> dict[str, int]:
        folders = [root / name, *(f for f in root.parent.iterdir() if f.name.startswith("out"))]
        files = (p for folder in folders for p in folder.rglob("*") if p.is_file() and "_control" not in p.parts)
        return {str(p): p.stat().st_mtime_ns for p in files}

    before, head = seen(), newest(root, name)
    with pytest.raises(error, match=match) as caught:
        start()
    assert caught.value.action
    assert seen() == before
    assert newest(root, name) == head


@pytest.fixture
def source(tmp_path: Path) -> Input:
    return Input(tmp_path / "in").add_many(2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory: pytest.TempPathFactory) -> tuple[Input, Path]:
    """Input and root of a job, `ran`, that has counted two files; no test changes them."""
    folder = tmp_path_factory.mktemp("ran")
    source = Input(folder / "in").add_many(2)
    run_all(count_job(source.stream(spark), folder / "root", "ran"))
    return source, folder / "root"


@pytest.fixture
def df(spark, ran: tuple[Input, Path], root: Path) -> Any:
    """The input of `ran`; the root of `ran` is copied to `root`."""
    source, original = ran
    shutil.copytree(original, root)
    return source.stream(spark)


def test_what_changed_is_named(spark, source: Input, root: Path) -> None:
    """One job, run once, then started in all ways that do not fit."""
    df = source.stream(spark)
    name = "changed"
    run_all(count_job(df, root, name))

    def start(df: Any = df, **options: Any) -> Any:
        return lambda: count_job(df, root, name, **options).start(available_now=True)

    other_key = df.selectExpr("n", "cast(substr(k, 2) as int) as k", "sub", "v")
    refused(root, name, KeyTypeChangedError, "k int.*k string", start(other_key))
    refused(root, name, KeyTypeChangedError, "sub string", start(key=["sub"]))
    refused(root, name, StateTypeChangedError, "'count'.*bigint.*string", start(function=Text()))
    refused(root, name, MaxParallelismChangedError, "64.*128", start(max_parallelism=64))
    elsewhere = Input(source.folder.parent / "elsewhere").add_many(1)
    refused(root, name, SourcesChangedError, "elsewhere", start(elsewhere.stream(spark)))
    reader = spark.readStream.schema("n bigint, k string, sub string, v bigint").option("maxFilesPerTrigger", 1)
    globbed = reader.option("pathGlobFilter", "*.parquet").parquet(str(source.folder))
    refused(root, name, SourcesChangedError, "(?i)pathglobfilter", start(globbed))
    refused(root, name, SourcesChangedError, "were 1 and are 2", start(df.union(elsewhere.stream(spark))))

    paced = source.stream(spark, per_epoch=7)  # how much is read at once may change
    source.add_many(2)
    assert [e.records for e in run_all(count_job(paced, root, name)).epochs] == [120]


def test_a_refused_start_makes_no_table_for_a_new_sink(df: Any, root: Path, tmp_path: Path) -> None:
    sink = DeltaSink(str(tmp_path / "out" / "new"))
    other_key = df.selectExpr("n", "cast(substr(k, 2) as int) as k", "sub", "v")
    job = count_job(other_key, root, "ran", sink)
    refused(root, "ran", KeyTypeChangedError, "k int", lambda: job.start(available_now=True))
    assert table_version(sink.path) is None


def test_an_operator_that_is_gone(df: Any, root: Path) -> None:
    def renamed() -> StreamJob:
        job = StreamJob("ran", root=str(root), parallelism=2)
        stream = job.from_stream(df).key_by("k", order_by=["n"])
        stream.process(Count(), "n bigint, k string, times bigint", uid="tally").sink_to(MemorySink("ran"), uid="out")
        return job

    refused(root, "ran", UnknownOperatorError, "'count'", lambda: renamed().start(available_now=True))
    run_all(renamed(), allow_non_restored_state=True)
    assert newest(root, "ran").operators.keys() == {"count", "tally"}


def test_a_damaged_manifest(df: Any, root: Path) -> None:
    newest_file = max((root / "ran" / "_epochs" / "g000001").glob("e*.json"))
    sound = newest_file.read_bytes()
    newest_file.write_bytes(sound.replace(b'"epoch"', b'"epocH"', 1))
    with pytest.raises(DamagedManifestError, match=newest_file.name) as caught:
        count_job(df, root, "ran").start(available_now=True)
    assert caught.value.action
    newest_file.write_bytes(sound[: len(sound) // 2])
    with pytest.raises(DamagedManifestError, match=newest_file.name):
        count_job(df, root, "ran").start(available_now=True)
    newest_file.write_bytes(sound)
    assert run_all(count_job(df, root, "ran")).epochs == []


def test_a_change_file_that_is_gone_or_damaged(spark, source: Input, root: Path) -> None:
    df, name = source.stream(spark), "change-file"
    run_all(count_job(df, root, name))
    files = sorted((root / name / "_epochs" / "g000001" / "changes").glob("*.arrow"))
    sound = files[0].read_bytes()
    source.add_many(1)

    def fails(error: type[LakestateError]) -> None:
        # With another parallelism; otherwise workers have the state in their caches and do not read the file.
        client = count_job(df, root, name, parallelism=3).start(available_now=True)
        with pytest.raises(error, match=files[0].name) as caught:
            client.await_termination(120)
        assert caught.value.action
        assert client.epochs == []

    files[0].unlink()
    fails(MissingFileError)
    files[0].write_bytes(bytes(b ^ 0x55 for b in sound))
    fails(DamagedFileError)
    files[0].write_bytes(sound)
    run_all(count_job(df, root, name))
    assert_counts(root, name, source.all)


def test_a_savepoint_with_a_damaged_file_is_refused_before_the_sinks_go_back(
    spark, source: Input, root: Path, tmp_path: Path
) -> None:
    def job() -> StreamJob:
        return count_job(source.stream(spark), root, "sound", sink=DeltaSink(str(tmp_path / "out")))

    run_all(job())
    taken = trigger_savepoint(str(root), "sound")
    assert isinstance(taken, Pin)
    source.add_many(1)
    run_all(job())
    files = [path for path, _ in taken.handles if path.endswith((".parquet", ".arrow"))]
    path = root / "sound" / max(files)
    sound = path.read_bytes()
    path.unlink()
    path.write_bytes(sound[:-9] + bytes([sound[-9] ^ 1]) + sound[-8:])
    back = {"available_now": True, "restore": taken.savepoint_id}
    refused(root, "sound", DamagedFileError, path.name, lambda: job().start(**back))


def test_a_root_that_cannot_be_written(spark, source: Input) -> None:
    with pytest.raises(NotWritableError) as caught:
        count_job(source.stream(spark), Path("/proc/lakestate"), "unwritable").start(available_now=True)
    assert caught.value.action


def test_a_file_where_the_root_should_be(spark, source: Input, root: Path) -> None:
    root.write_text("not a folder")
    with pytest.raises(StorageError) as caught:
        count_job(source.stream(spark), root, "no-folder").start(available_now=True)
    assert caught.value.action


def test_a_sink_table_of_other_columns(spark, source: Input, root: Path, tmp_path: Path) -> None:
    sinks = outputs(tmp_path / "out")
    write_deltalake(sinks.totals, pa.table({"n": pa.array([1], pa.int64()), "total": ["much"]}))
    job = tally_job(source.stream(spark), root, "other-columns", sinks)
    with pytest.raises(SinkError, match="'totals-out'") as caught:
        job.start(available_now=True)
    assert "column 'sub' is missing, wanted" in caught.value.message
    assert "column 'total' is string, wanted long" in caught.value.message
    assert sinks.totals in caught.value.message
    assert "another path" in caught.value.action
    assert newest(root, "other-columns") is None
    assert table_version(sinks.totals) == 0
    assert table_version(sinks.tally) is None, "no table was created before all tables were checked"


def test_a_sink_table_that_asks_more_of_its_writers(spark, source: Input, root: Path, tmp_path: Path) -> None:
    sinks = outputs(tmp_path / "out")
    rows = pa.table(
        {"n": pa.array([], pa.int64()), "sub": pa.array([], pa.string()), "total": pa.array([], pa.int64())}
    )
    write_deltalake(sinks.totals, rows, partition_by=["sub"])
    with pytest.raises(SinkError, match=r"'totals-out'.*is partitioned by 'sub'") as caught:
        tally_job(source.stream(spark), root, "partitioned", sinks).start(available_now=True)
    assert sinks.totals in caught.value.message
    assert "partition_by=['sub']" in caught.value.action
    assert newest(root, "partitioned") is None
    assert (table_version(sinks.totals), table_version(sinks.tally)) == (0, None)


def test_a_sink_table_that_was_compacted_cannot_go_back(spark, source: Input, root: Path, tmp_path: Path) -> None:
    sinks = outputs(tmp_path / "out")

    def job() -> StreamJob:
        return tally_job(source.stream(spark), root, "compacted", sinks, 2)

    run_all(job())
    DeltaTable(sinks.tally).optimize.compact()
    refused(
        root, "compacted", SinkRewindError, "tally-out", lambda: job().start(available_now=True, restore="epoch:1/2")
    )
    source.add_many(1)
    run_all(job())
    assert_tally(root, "compacted", sinks, source.all)
