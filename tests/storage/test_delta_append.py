"""A sink that knows its last commit appends without loading the table, and loads it whenever that may be wrong."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from state_engine.epoch.table_sink import TableSink
from state_engine.errors import AlreadyExistsError, DamagedFileError, NotFoundError, SinkError, StorageError
from state_engine.log.records import OutputFile
from state_engine.storage import delta, delta_durable
from state_engine.storage.background import Inline
from state_engine.storage.delta_append import Appender, AppendVersion, Known, entry_of
from state_engine.storage.delta_output import DeltaOutputTable
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.local import LocalStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.parquet import write_parquet
from state_engine.storage.table_log import Commit, CommitConflictError, DeltaFile

SCHEMA = pa.schema([("n", pa.int64())])


class Stage:
    """A sink over a real table, and how often the table was loaded."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.table = DeltaOutputTable(self.path, SCHEMA, Inline())
        self.loads = 0
        opened = self.table.open

        def count() -> delta.DeltaVersion:
            self.loads += 1
            return opened()

        self.table.open = count  # type: ignore[method-assign]
        self.log = ManifestLog(MemoryStorage(), "job")
        self.log.create_birth_id("ab" * 16, 1)
        self.sink = TableSink("job", "out", self.table, self.log, lambda: 7)
        self.sink.create()

    def staged(self, number: int) -> OutputFile:
        name = f"part-{number}.parquet"
        written = write_parquet(LocalStorage(self.path), name, pa.table({"n": [number]}, schema=SCHEMA))
        return OutputFile(
            output="out", path=name, in_table=True, length=written.length, checksum=written.checksum, rows=1,
            statistics=written.statistics,
        )  # fmt: skip

    def commit(self, epoch: int, generation: int = 1) -> None:
        self.sink.commit(generation, epoch, [self.staged(generation * 100 + epoch)])

    def rows(self) -> list[int]:
        return sorted(pa.table(DeltaTable(self.path).to_pyarrow_table()).column("n").to_pylist())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path / "table")
    stage.commit(1)
    return stage


def test_it_is_loaded_once(stage: Stage) -> None:
    for epoch in range(2, 8):
        stage.commit(epoch)
    assert (stage.loads, stage.rows()) == (1, [101, 102, 103, 104, 105, 106, 107])
    assert stage.sink.standing().fence == 1 << 40 | 7


def test_all_files_of_an_epoch_are_added(stage: Stage) -> None:
    for epoch in (2, 3):
        stage.sink.commit(1, epoch, [stage.staged(number) for number in (10 * epoch, 10 * epoch + 1)])
    assert stage.rows() == [20, 21, 30, 31, 101]


def test_an_epoch_that_it_holds_is_not_added_again(stage: Stage) -> None:
    file = stage.staged(200)
    for _ in range(2):
        stage.sink.commit(1, 2, [file])
    assert stage.rows() == [101, 200]
    assert (DeltaTable(stage.path).version(), stage.loads) == (2, 1)


def test_an_entry_says_what_that_of_delta_rs_says(tmp_path: Path) -> None:
    file = DeltaFile("part a/k=v.parquet", 5, 1, '{"numRecords":1}', 3)
    commit = Commit("app", 4, added=[file], now_ms=9, info={"lakestate.job": "j"}, marks={"birth": 2})
    delta.create_table(str(tmp_path), SCHEMA, {})
    delta.open_version(str(tmp_path)).commit(commit)
    theirs, ours = (actions_of((tmp_path / "_delta_log" / f"{1:020d}.json").read_bytes()), actions_of(entry_of(commit)))
    assert [(kind, of) for kind, of in ours if kind != "commitInfo"] == [
        ("add", {**{key: of for key, of in theirs[0][1].items() if of is not None}, "path": "part%20a/k=v.parquet"}),
        *[(kind, of) for kind, of in theirs if kind == "txn"],
    ]
    assert not any("lastUpdated" in of for _, of in ours), "else the fence may expire"
    (info,), (other,) = ([of for kind, of in actions if kind == "commitInfo"] for actions in (ours, theirs))
    shared = ("operation", "operationParameters", "lakestate.job", "lakestate.digest")
    assert {key: info[key] for key in shared} == {key: other[key] for key in shared}


def actions_of(entry: bytes) -> list[tuple[str, dict[str, object]]]:
    actions = [action for line in entry.splitlines() for action in json.loads(line).items()]
    return sorted(actions, key=lambda action: (action[0], str(action[1].get("appId"))))


def test_another_writer_in_between_makes_it_look_again(stage: Stage) -> None:
    write_deltalake(stage.path, pa.table({"n": [7]}, schema=SCHEMA), mode="append")
    stage.commit(2)
    stage.commit(3)
    assert (stage.loads, stage.rows()) == (2, [7, 101, 102, 103])


def test_what_its_owner_changed_is_seen(stage: Stage) -> None:
    DeltaTable(stage.path).alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(SinkError, match="CHECK constraints"):
        stage.commit(2)
    assert stage.rows() == [101]


def test_a_driver_that_slept_through_a_restore_adds_nothing(stage: Stage) -> None:
    other = Stage(Path(stage.path))
    other.sink.adopt(2)
    stage.commit(2)
    other.commit(1, generation=2)
    stage.commit(3)
    assert stage.rows() == [101, 201]


def remade(commits: int) -> Callable[[str], None]:
    def remake(path: str) -> None:
        shutil.rmtree(Path(path, "_delta_log"))
        delta.create_table(path, SCHEMA, {})
        for number in range(commits):
            write_deltalake(path, pa.table({"n": [number]}, schema=SCHEMA), mode="append")

    return remake


@pytest.mark.parametrize("commits", [0, 1, 2], ids=["shorter", "as long", "longer"])
def test_a_table_that_was_removed_and_made_anew_is_loaded(stage: Stage, commits: int) -> None:
    remade(commits)(stage.path)
    stage.commit(2)
    assert (stage.loads, stage.rows()) == (2, [*range(commits), 102])
    stage.commit(3)
    assert (stage.loads, stage.rows()) == (2, [*range(commits), 102, 103])


def test_a_table_that_was_removed_is_missed(stage: Stage) -> None:
    shutil.rmtree(Path(stage.path, "_delta_log"))
    with pytest.raises(NotFoundError, match="no Delta table"):
        stage.commit(2)
    assert not Path(stage.path, "_delta_log").exists()


def test_a_table_that_goes_while_an_entry_is_put_is_missed_at_the_next_commit(stage: Stage) -> None:
    shutil.rmtree(Path(stage.path))
    removed = Appender(stage.path, LocalStorage(stage.path), stage.table.open)
    removed._kept = Known(1, {}, (), (), b"")
    AppendVersion(stage.path, LocalStorage(stage.path), removed._kept, removed._learn).commit(add(1))
    assert removed._kept is not None
    assert [file.name for file in Path(stage.path, "_delta_log").iterdir()] == [f"{2:020d}.json"]
    with pytest.raises(StorageError, match="cannot be loaded"):
        removed.open(["other"])


def test_entries_that_were_removed_behind_a_checkpoint_do_not_come_free(stage: Stage) -> None:
    """Another writer commits, makes a checkpoint, and removes the entries after ours."""
    for number in range(2, 6):
        write_deltalake(stage.path, pa.table({"n": [number]}, schema=SCHEMA), mode="append")
    DeltaTable(stage.path).create_checkpoint()
    for number in range(2, 5):
        Path(stage.path, "_delta_log", f"{number:020d}.json").unlink()
    stage.commit(2)
    assert (stage.loads, stage.rows()) == (2, [2, 3, 4, 5, 101, 102])


def test_its_last_entry_is_compared_before_the_next_one(stage: Stage) -> None:
    stage.commit(2)
    entry = Path(stage.path, "_delta_log", f"{2:020d}.json")
    entry.write_bytes(entry.read_bytes().replace(b"part-102", b"part-101"))
    with pytest.raises(DamagedFileError, match="not what was written"):
        stage.commit(3)


def appender(stage: Stage, *faults: Fault) -> tuple[Appender, FaultyStorage]:
    storage = FaultyStorage(LocalStorage(stage.path), faults)
    return Appender(stage.path, storage, stage.table.open), storage


def add(version: int, name: str = "part-101.parquet") -> Commit:
    return Commit("other", version, added=[DeltaFile(name, 1, 1)], now_ms=version)


def test_a_put_that_was_not_answered_is_looked_for(stage: Stage) -> None:
    opener, _ = appender(stage, Fault("after", "put_if_absent", skip=1))
    opener.open(["other"]).commit(add(1))
    with pytest.raises(StorageError):
        opener.open(["other"]).commit(add(2))
    assert stage.loads == 2
    found = opener.open(["other"])
    assert stage.loads == 3
    assert (found.transaction_version("other"), found.version) == (2, 3)


def test_a_put_that_the_store_repeated_is_ours(stage: Stage) -> None:
    class Repeats(LocalStorage):
        def put_if_absent(self, path: str, data: object) -> None:  # type: ignore[override]
            super().put_if_absent(path, data)  # type: ignore[arg-type]
            raise AlreadyExistsError("the first attempt of this very call")

    Appender(stage.path, Repeats(stage.path), stage.table.open).open(["other"]).commit(add(1))
    assert delta.transaction_version(stage.path, "other") == 1
    assert DeltaTable(stage.path).version() == 2


def test_a_name_that_is_refused_and_not_there_is_another_writers(stage: Stage) -> None:
    """A bucket refuses one of two puts at the same time, before the other one has succeeded."""

    class Refuses(LocalStorage):
        def put_if_absent(self, path: str, data: object) -> None:  # type: ignore[override]
            raise AlreadyExistsError("a conflict")

    with pytest.raises(CommitConflictError):
        Appender(stage.path, Refuses(stage.path), stage.table.open).open(["other"]).commit(add(1))


def test_a_version_is_made_by_one_writer(stage: Stage) -> None:
    first, second = (appender(stage)[0].open(["other"]) for _ in range(2))
    first.commit(add(1))
    with pytest.raises(CommitConflictError, match="version 2"):
        second.commit(add(1, "part-7.parquet"))


def test_an_application_that_was_not_asked_for_is_read_from_the_table(stage: Stage) -> None:
    opener, _ = appender(stage)
    opener.open(["other"]).commit(add(1))
    loads = stage.loads
    assert opener.open(["lakestate/job/out"]).transaction_version("lakestate/job/out") == 1 << 40 | 1
    assert stage.loads == loads + 1


def test_a_checkpoint_of_the_log_is_written_at_the_tables_own_interval(stage: Stage, tmp_path: Path) -> None:
    DeltaTable(stage.path).alter.set_table_properties({"delta.checkpointInterval": "4"})
    for epoch in range(2, 12):
        stage.commit(epoch)
    names = sorted(file.name for file in Path(stage.path, "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(name.partition(".")[0]) for name in names] == [3, 7, 11]
    assert "lakestate.sha256" in Path(stage.path, "_delta_log", "_last_checkpoint").read_text()
    assert stage.rows() == list(range(101, 112))


def test_of_several_checkpoints_that_are_due_the_newest_is_written(tmp_path: Path) -> None:
    waiting: list[Callable[[], None]] = []
    stage = Stage(tmp_path / "table")
    stage.table._background = SimpleNamespace(submit=waiting.append)  # type: ignore[assignment]
    DeltaTable(stage.path).alter.set_table_properties({"delta.checkpointInterval": "2"})
    for epoch in range(1, 8):
        stage.commit(epoch)
    for one in waiting:
        one()
    names = sorted(file.name for file in Path(stage.path, "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(name.partition(".")[0]) for name in names] == [1, 7], "the first is that of the change of properties"
    assert len(waiting) == 3


def test_a_checkpoint_leaves_the_file_of_a_commit_under_way(stage: Stage) -> None:
    fresh, old = (Path(stage.path, "_delta_log", f".tmp-{name}") for name in ("fresh", "old"))
    for file in (fresh, old):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    delta_durable.write_checkpoint(stage.path, 1)
    assert (fresh.exists(), old.exists()) == (True, False)


def test_a_checkpoint_that_cannot_be_written_stops_no_epoch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(path: str, version: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("state_engine.storage.delta_output.write_checkpoint", fail)
    DeltaTable(stage.path).alter.set_table_properties({"delta.checkpointInterval": "2"})
    with caplog.at_level(logging.WARNING):
        for epoch in range(2, 6):
            stage.commit(epoch)
    assert stage.rows() == [101, 102, 103, 104, 105]
    assert "A checkpoint of the log" in caplog.text
    assert delta_durable.local_root(stage.path) is not None
