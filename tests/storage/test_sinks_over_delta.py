"""The owner of a real Delta table changes it while a stream writes to it: no commit goes into a table that misfits."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from state_engine.epoch.table_sink import TableSink
from state_engine.errors import DamagedFileError, MissingFileError, SinkError
from state_engine.log.birth import birth_number
from state_engine.log.records import OutputFile
from state_engine.storage.delta_output import DeltaOutputTable
from state_engine.storage.local import LocalStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.parquet import write_parquet

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string())])


class Stage:
    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")
        self.log = ManifestLog(MemoryStorage(), "job")
        self.log.create_birth_id("ab" * 16, 1)
        self.sink = TableSink("job", "out", DeltaOutputTable(self.path, SCHEMA), self.log, lambda: 7)
        self.sink.create()

    def commit(self, epoch: int) -> None:
        self.sink.commit(1, epoch, [self.staged(epoch)])

    def staged(self, epoch: int) -> OutputFile:
        name = f"part-{epoch}.parquet"
        written = write_parquet(LocalStorage(self.path), name, pa.table({"n": [epoch], "k": ["a"]}, schema=SCHEMA))
        return OutputFile(
            output="out", path=name, in_table=True, length=written.length, checksum=written.checksum, rows=1,
            statistics=written.statistics,
        )  # fmt: skip

    def rows(self) -> list[int]:
        return sorted(pa.table(DeltaTable(self.path).to_pyarrow_table()).column("n").to_pylist())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.commit(1)
    return stage


def overwrite(**columns: pa.Array) -> Callable[[str], None]:
    return lambda path: write_deltalake(path, pa.table(columns), mode="overwrite", schema_mode="overwrite")


def constraint(path: str) -> None:
    DeltaTable(path).alter.add_constraint({"positive": "n > 0"})


def properties(**given: str) -> Callable[[str], None]:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return lambda path: DeltaTable(path).alter.set_table_properties(named)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (overwrite(n=pa.array(["0"]), k=pa.array(["a"])), "'n' is string, wanted long"),
        (overwrite(n=pa.array([0], pa.int32()), k=pa.array(["a"])), "'n' is integer, wanted long"),
        (overwrite(n=pa.array([0], pa.int64())), "'k' is missing"),
        (constraint, "CHECK constraints 'positive'"),
        (properties(delta_appendOnly="true"), "append-only"),
    ],
)
def test_what_the_owner_changed_meanwhile_stops_the_next_commit(
    stage: Stage, change: Callable[[str], None], what: str
) -> None:
    change(stage.path)
    version = DeltaTable(stage.path).version()
    with pytest.raises(SinkError, match=what):
        stage.commit(2)
    assert DeltaTable(stage.path).version() == version


def test_columns_that_the_owner_adds_are_fine(stage: Stage) -> None:
    DeltaTable(stage.path).alter.add_columns([Field("more", PrimitiveType("string"))])
    stage.commit(2)
    assert stage.rows() == [1, 2]
    assert {field.name for field in Schema.from_arrow(SCHEMA).fields} < {
        field.name for field in DeltaTable(stage.path).schema().fields
    }


def test_each_commit_records_the_birth_id_and_a_checkpoint_of_the_log_keeps_it(stage: Stage) -> None:
    DeltaTable(stage.path).create_checkpoint()
    standing = stage.sink.standing()
    assert (standing.uid, standing.fence, standing.birth) == ("out", 1 << 40 | 1, birth_number("ab" * 16))


def test_adopted_it_keeps_its_rows_and_ignores_older_epochs(stage: Stage) -> None:
    stage.log = ManifestLog(MemoryStorage(), "job")
    stage.log.create_birth_id("cd" * 16, 1)
    stage.sink = TableSink("job", "out", DeltaOutputTable(stage.path, SCHEMA), stage.log, lambda: 7)
    for _ in range(2):
        stage.sink.adopt(2)
    stage.commit(2)
    assert stage.rows() == [1]
    assert stage.sink.standing().birth == birth_number("cd" * 16)


def test_what_was_vacuumed_is_looked_for_only_if_the_table_lacks_the_epoch(stage: Stage) -> None:
    (Path(stage.path) / "part-1.parquet").rename(Path(stage.path) / "gone")
    stage.sink.commit(
        1, 1, [OutputFile(output="out", path="part-1.parquet", in_table=True, length=1, checksum="", rows=1)]
    )


def flipped(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_what_another_driver_staged_is_compared_with_its_checksum(stage: Stage) -> None:
    file = stage.staged(2)
    flipped(Path(stage.path) / file.path, 40)
    for attempt in (stage.sink.check_owed, partial(stage.sink.commit, verify=True)):
        with pytest.raises(DamagedFileError, match="part-2"):
            attempt(1, 2, [file])
    assert stage.rows() == [1]


def test_what_cannot_be_paid_is_left_out_once_and_for_all(stage: Stage) -> None:
    file = stage.staged(2)
    (Path(stage.path) / file.path).unlink()
    with pytest.raises(MissingFileError, match="keep_output"):
        stage.sink.check_owed(1, 2, [file])
    stage.sink.leave_out(1, 2)
    stage.sink.check_owed(1, 2, [file])
    stage.sink.commit(1, 2, [file], verify=True)
    stage.commit(3)
    assert stage.rows() == [1, 3]
