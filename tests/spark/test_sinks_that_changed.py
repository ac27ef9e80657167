"""A job that is started with other sinks is refused if output of the old ones would be lost or doubled."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import COUNTS, Count, Input, counted, newest, run_all, table_rows

from state_engine.epoch.sink_identity import SinkIdentity
from state_engine.errors import LakestateError, SinkError, SinkRewindError
from state_engine.log.records import SinkTable
from state_engine.spark import DeltaSink, EpochId, ForeachEpochSink, MemorySink, StreamJob
from state_engine.spark.graph.sinks import Sink
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.storage.delta import table_version

pytestmark = pytest.mark.spark
NAME = "changing"


class Place:
    """The input, root and tables of one job."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.root = spark, folder, folder / "root"
        self.source = Input(folder / "in").add_many(2)

    def table(self, name: str) -> str:
        return str(self.folder / "out" / name)

    def job(self, **sinks: str | Sink) -> StreamJob:
        """Builds the job with these sinks, by uid; a string is a table's name."""
        job = StreamJob(NAME, root=str(self.root), parallelism=2)
        stream = job.from_stream(self.source.stream(self.spark)).key_by("k", order_by=["n"])
        counts = stream.process(Count(), COUNTS, uid="count")
        for uid, sink in sinks.items():
            counts.sink_to(DeltaSink(self.table(sink)) if isinstance(sink, str) else sink, uid=uid)
        return job

    def refused(self, error: type[LakestateError], match: str, job: StreamJob, **options: Any) -> str:
        """Starts, expects the error and that nothing is written anywhere; returns the error's advice."""

        def seen() -> dict[str, int]:
            folders = (self.root, self.folder / "out")
            files = (p for folder in folders for p in folder.rglob("*") if p.is_file() and "_control" not in p.parts)
            return {str(p): p.stat().st_mtime_ns for p in files}

        before = seen()
        with pytest.raises(error, match=match) as caught:
            job.start(available_now=True, **options)
        assert seen() == before
        return caught.value.action


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


@pytest.fixture
def fail_commits(monkeypatch: pytest.MonkeyPatch) -> Callable[[StreamJob], None]:
    """Runs a job that seals an epoch and dies before any sink has its output."""

    def die(*_: Any, **__: Any) -> None:
        raise ConnectionError("the driver ends after the seal")

    def run(job: StreamJob) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(SinkCommits, "_commit_one", die)
            with pytest.raises(SinkError, match="after the seal"):
                job.start(available_now=True).await_termination(120)

    return run


def test_manifests_say_what_the_sinks_are(place: Place) -> None:
    MemorySink("changing-rows").clear()
    got: list[EpochId] = []
    run_all(
        place.job(x="a", rows=MemorySink("changing-rows"), told=ForeachEpochSink(lambda epoch, _: got.append(epoch)))
    )
    assert got
    assert newest(place.root, NAME).sinks == (
        SinkTable(uid="x", kind="delta", table=place.table("a")),
        SinkTable(uid="rows", kind="memory", table="changing-rows"),
        SinkTable(uid="told", kind="foreach"),
    )


@pytest.mark.long  # `epoch/test_sinks_that_changed.py` decides it
def test_a_table_does_not_go_on_under_another_uid(place: Place) -> None:
    """A new first sink shifts the names that are derived from positions by one."""
    run_all(place.job(x="a"))
    before = table_rows(place.table("a"))
    for restore, error, match in (
        (None, SinkError, r"'y' writes .*/out/a.*'x'"),
        ("epoch:1/2", SinkRewindError, r"'x', the Delta table .*/out/a, which is now .*/out/b.*come again"),
    ):
        action = place.refused(error, match, place.job(x="b", y="a"), restore=restore)
        assert "uid='x'" in action
        assert "'y'" in action or restore is None
        assert "keep_output" in action
    run_all(place.job(y="b", x="a"), restore="epoch:1/2")
    assert table_rows(place.table("a")) == before == counted(place.source.all)


@pytest.mark.long
def test_a_sink_that_is_gone_cannot_be_restored_but_may_keep_its_output(place: Place) -> None:
    run_all(place.job(x="a", y="b"))
    place.source.add_many(1)
    run_all(place.job(x="a"))  # nothing is owed, and nothing has to go back
    kept = table_rows(place.table("b"))
    action = place.refused(SinkRewindError, r"'y'.*/out/b.*no longer has", place.job(x="a"), restore="epoch:1/2")
    assert "uid='y'" in action
    assert "keep_output" in action
    renamed = place.job(x="a", z=MemorySink("changing-z"))
    place.refused(SinkRewindError, "'y'", renamed, restore="epoch:1/2")
    run_all(place.job(x="a", y="b"), restore="epoch:1/2")
    assert table_rows(place.table("a")) == counted(place.source.all)
    assert table_rows(place.table("b"))[: len(kept)] == kept
    assert len(table_rows(place.table("b"))) == len(place.source.all)

    kept = table_rows(place.table("b"))  # but it may keep its output
    run_all(place.job(x="a"), restore="epoch:1/2", keep_output=True)
    assert newest(place.root, NAME).generation == 3
    assert table_rows(place.table("b")) == kept
    assert len(table_rows(place.table("a"))) > len(place.source.all)  # as `keep_output` requires


OTHER_SINKS: dict[str, tuple[dict[str, Any], str]] = {
    "gone": ({"x": "a"}, r"may still owe.*'y', the Delta table .*/out/b, which the job no longer has"),
    "renamed": ({"x": "a", "z": "b"}, r"may still owe.*'y'.*no longer has.*Give sink 'z'.*left out"),
    "moved": (
        {"x": "a", "y": "c"},
        r"may still owe.*'y', the Delta table .*/out/b, which is now the Delta table .*/out/c",
    ),
    "another kind": ({"x": "a", "y": MemorySink("changing-y")}, r"'y'.*which is now the memory sink"),
}


def test_sealed_output_is_owed_to_the_very_sink(place: Place, fail_commits: Callable[[StreamJob], None]) -> None:
    fail_commits(place.job(x="a", y="b"))
    for sinks, match in OTHER_SINKS.values():
        assert "uid='y'" in place.refused(SinkError, match, place.job(**sinks))
    assert table_version(place.table("c")) is None
    run_all(place.job(x="a", y="b"))
    for table in ("a", "b"):
        assert table_rows(place.table(table)) == counted(place.source.all)


@pytest.mark.long  # `epoch/test_sinks_that_changed.py` decides it
def test_what_is_owed_to_a_sink_that_moved_is_left_out_if_output_is_kept(
    place: Place, fail_commits: Callable[[StreamJob], None]
) -> None:
    fail_commits(place.job(x="a", y="b"))
    run_all(place.job(x="a", y="c"), keep_output=True)
    assert table_rows(place.table("a")) == counted(place.source.all)
    assert table_rows(place.table("b")) == []
    assert len(table_rows(place.table("c"))) == len(place.source.all) - 60


def test_a_sink_may_move_when_nothing_is_owed_but_not_back_in_time(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    run_all(place.job(x="a"))
    place.source.add_many(1)
    assert "from now on" not in caplog.text
    run_all(place.job(x="b"))
    assert re.search(r"'x' of job .* writes .*/out/b from now on; .*/out/a keeps what it has", caplog.text)
    assert len(table_rows(place.table("b"))) == 60
    place.refused(SinkRewindError, r"'x'.*/out/a, which is now.*/out/b", place.job(x="b"), restore="epoch:1/2")


@pytest.mark.long  # `epoch/test_sinks_that_changed.py` decides it
def test_what_a_function_got_is_not_known(place: Place) -> None:
    run_all(place.job(x="a", told=ForeachEpochSink(lambda epoch, rows: None)))
    action = place.refused(SinkError, "may still owe.*'told', a function", place.job(x="a"))
    assert "keep_output" in action
    run_all(place.job(x="a"), keep_output=True)
    place.source.add_many(1)
    run_all(place.job(x="a"), keep_output=True)
    run_all(place.job(x="a"))
    assert table_rows(place.table("a")) == counted(place.source.all)


@pytest.mark.long  # `epoch/test_sinks_that_changed.py` decides it
def test_of_older_manifests_only_the_uid_is_known(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(SinkIdentity, "declared", ())
        run_all(place.job(x="a", y="b"))
    assert newest(place.root, NAME).sinks == ()
    place.refused(SinkError, "may still owe.*'y', which the job no longer has", place.job(x="a"))
    place.refused(SinkRewindError, "'y'", place.job(x="a"), restore="epoch:1/2")
    run_all(place.job(x="a", y="b"), restore="epoch:1/2")
    for table in ("a", "b"):
        assert table_rows(place.table(table)) == counted(place.source.all)
