"""Commits to Delta tables: once per (application, version), also if other writers commit at the same time."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from state_engine.errors import DamagedFileError, MissingFileError, NotFoundError, StorageError
from state_engine.storage import delta
from state_engine.storage.delta import (
    PATIENCE,
    DeltaFile,
    DeltaOpener,
    DeltaVersion,
    append_files,
    ensure_table,
    live_files,
    open_version,
)
from state_engine.storage.local import LocalStorage
from state_engine.storage.parquet import write_parquet
from state_engine.storage.table_log import Commit, commit_once

SCHEMA = pa.schema([pa.field("key_group", pa.int32(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "job" / "uid" / "state")
    ensure_table(path, SCHEMA)
    return path


def _file(table: str, name: str, *values: str) -> DeltaFile:
    rows = pa.table({"key_group": pa.array([0] * len(values), pa.int32()), "v": list(values)}, schema=SCHEMA)
    written = write_parquet(LocalStorage(table), name, rows)
    return DeltaFile(name, written.length, written.rows, written.statistics, 1_700_000_000_000)


def _append(table: str, version: int, *files: DeltaFile, app_id: str = "app", overwrite: bool = False) -> int:
    return append_files(
        table, files, app_id=app_id, version=version, schema=SCHEMA, overwrite=overwrite, info={"epoch": version}
    )


def _replace(table: str, version: int, removed: list[str], added: list[DeltaFile] | None = None) -> int:
    wanted = Commit("app", version, removed, added or [], now_ms=1)
    return commit_once(table, lambda: open_version(table), "app", version, lambda handle: handle.commit(wanted))


def _values(table: str) -> list[str]:
    return sorted(pa.table(DeltaTable(table).to_pyarrow_table()).column("v").to_pylist())


def test_a_new_table_keeps_its_log(table: str) -> None:
    configuration = DeltaTable(table).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 3650 days"
    assert configuration["delta.enableExpiredLogCleanup"] == "false"
    assert delta.table_version(table) == 0


@pytest.mark.parametrize("attempt", range(8))  # without the guard, the race is lost four times out of five
def test_ensuring_a_table_twice_and_at_once_is_fine(tmp_path: Path, attempt: int) -> None:
    path = str(tmp_path / "new")
    errors: list[BaseException] = []
    together = threading.Barrier(4)

    def ensure() -> None:
        together.wait()
        try:
            ensure_table(path, SCHEMA)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ensure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert delta.table_version(path) == 0


def test_writers_that_commit_all_the_time_do_not_keep_a_commit_out(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit reads the new entries of the log, and after some conflicts waits before it tries again."""
    loads, pauses = list[str](), list[float]()
    load = delta._load
    monkeypatch.setattr(delta, "_load", lambda path: [load(path), loads.append(path)][0])
    monkeypatch.setattr(delta, "time", SimpleNamespace(sleep=pauses.append))  # not that of other threads
    foreign = [_file(table, f"foreign-{number}.parquet", "theirs") for number in range(9)]
    mine = Commit("app", 1, added=[_file(table, "mine.parquet", "mine")])

    def commit(handle: DeltaVersion) -> None:
        if foreign:
            _append(table, len(foreign), foreign.pop(), app_id=f"other {len(foreign)}")
            loads.pop()
        handle.commit(mine)

    version = commit_once(table, DeltaOpener(table).open, "app", 1, commit)
    assert version == 10
    assert loads == [table], "once"
    assert len(pauses) == 9 - PATIENCE
    assert _values(table) == ["mine", *["theirs"] * 9]


def test_a_table_of_other_columns_is_refused(table: str) -> None:
    with pytest.raises(StorageError, match=r"other columns.*w"):
        ensure_table(table, SCHEMA.append(pa.field("w", pa.int64())))
    with pytest.raises(StorageError, match=r"other columns.*'v'"):
        ensure_table(table, SCHEMA.set(1, pa.field("v", pa.int64())))
    lists = pa.field("l", pa.list_(pa.int32()))
    assert list(map(str, delta.other_columns(table, SCHEMA.set(1, pa.field("v", pa.int64()))))) == [
        "'v' is string, wanted long"
    ]
    assert [(c.name, c.found) for c in delta.other_columns(table, SCHEMA.append(lists))] == [("l", None)]
    assert delta.other_columns(table, SCHEMA.remove(1)) == []
    assert delta.other_columns(table + "-that-is-not-there", SCHEMA) == []


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "absent")
    assert delta.table_version(path) is None
    assert delta.transaction_version(path, "app") is None
    with pytest.raises(NotFoundError):
        append_files(path, [], app_id="app", version=1, schema=SCHEMA)


def test_a_commit_takes_effect_once(table: str) -> None:
    first = _file(table, "1.parquet", "a", "b")
    assert _append(table, 7, first) == 1
    assert _append(table, 7, first) == 1
    assert _append(table, 6, _file(table, "0.parquet", "old")) == 1
    assert _values(table) == ["a", "b"]
    assert delta.transaction_version(table, "app") == 7
    assert delta.transaction_version(table, "other") is None
    assert DeltaTable(table).history(1)[0]["epoch"] == 7


def test_applications_do_not_disturb_each_other(table: str) -> None:
    _append(table, 3, _file(table, "1.parquet", "a"), app_id="one")
    assert _append(table, 1, _file(table, "2.parquet", "b"), app_id="two") == 2
    assert _values(table) == ["a", "b"]


def test_overwrite_replaces_all_files(table: str) -> None:
    _append(table, 1, _file(table, "1.parquet", "a"), _file(table, "2.parquet", "b"))
    _append(table, 2, _file(table, "3.parquet", "c"), overwrite=True)
    assert live_files(table) == ["3.parquet"]


def test_statistics_reach_the_table(table: str) -> None:
    _append(table, 1, _file(table, "1.parquet", "a", "z"))
    (add,) = pa.table(DeltaTable(table).get_add_actions(flatten=True)).to_pylist()
    assert (add["num_records"], add["min.v"], add["max.v"], add["null_count.v"]) == (2, "a", "z", 0)


def test_a_file_that_is_gone_or_cut_is_not_committed(table: str) -> None:
    file = _file(table, "1.parquet", "a")
    with pytest.raises(DamagedFileError, match="expected"):
        _append(table, 1, file._replace(size=file.size + 1))
    (Path(table) / "1.parquet").unlink()
    with pytest.raises(MissingFileError, match=r"1\.parquet"):
        _append(table, 1, file)
    assert delta.table_version(table) == 0


def test_two_threads_with_one_version_make_one_commit(table: str) -> None:
    files = [_file(table, f"{number}.parquet", str(number)) for number in range(4)]
    _at_once([lambda file=file: _append(table, 1, file) for file in files])  # type: ignore[misc]
    assert delta.table_version(table) == 1
    assert len(_values(table)) == 1


def test_threads_with_applications_of_their_own_all_commit(table: str) -> None:
    files = [_file(table, f"{number}.parquet", str(number)) for number in range(4)]
    _at_once(
        [lambda n=n, file=file: _append(table, 1, file, app_id=str(n)) for n, file in enumerate(files)]  # type: ignore[misc]
    )
    assert delta.table_version(table) == 4
    assert _values(table) == ["0", "1", "2", "3"]


def test_versions_of_one_application_commit_in_order_or_not_at_all(table: str) -> None:
    files = {number: _file(table, f"{number}.parquet", str(number)) for number in range(1, 5)}
    _at_once([lambda n=n, file=file: _append(table, n, file) for n, file in files.items()])  # type: ignore[misc]
    history = [entry["epoch"] for entry in DeltaTable(table).history() if "epoch" in entry][::-1]
    assert history == sorted(set(history))
    assert history[-1] == 4


def _at_once(calls: list[object]) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: object) -> None:
        start.wait()
        try:
            call()  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_handle_has_the_version_that_it_was_opened_on(table: str) -> None:
    _append(table, 1, _file(table, "1.parquet", "a"))
    handle: DeltaVersion = open_version(table)
    added = _file(table, "2.parquet", "b")
    handle.commit(Commit("other", 4, added=[added]))
    assert (handle.version, open_version(table).version) == (1, 2)
    assert open_version(table).files() == {"1.parquet", "2.parquet"}
    assert open_version(table).transaction_version("other") == 4


def test_a_stale_handle_cannot_commit(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer commits the same version between our check and our commit: we check again and see it."""
    file, other = _file(table, "1.parquet", "mine"), _file(table, "2.parquet", "other")
    load, loads = delta._load, 0

    def load_and_be_overtaken(path: str) -> DeltaTable:
        nonlocal loads
        handle = load(path)
        loads += 1
        if loads == 1:
            monkeypatch.setattr(delta, "_load", load)
            _append(table, 1, other)
        return handle

    monkeypatch.setattr(delta, "_load", load_and_be_overtaken)
    assert _append(table, 1, file) == 1
    assert _values(table) == ["other"]


def test_delta_rs_refuses_a_stale_handle_without_retries(table: str) -> None:
    """`commit_once` relies on this; the test fails if delta-rs changes it."""
    stale = DeltaTable(table)
    _append(table, 1, _file(table, "1.parquet", "a"))
    with pytest.raises(CommitFailedError):
        stale.create_write_transaction(
            [deltalake.transaction.AddAction("x.parquet", 1, {}, 0, True, json.dumps({"numRecords": 1}))],
            "append",
            SCHEMA,
            commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[Transaction("b", 1)]),
        )


def test_too_many_conflicts_end_with_a_named_error(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "time", SimpleNamespace(sleep=lambda _: None))

    def always_overtaken(*_: object, **__: object) -> None:
        raise CommitFailedError("conflict")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", always_overtaken)
    with pytest.raises(StorageError, match=f"{delta.CONFLICTS} commits"):
        _append(table, 1, _file(table, "1.parquet", "a"))


def test_checkpoints_of_the_log_keep_versions_and_transactions(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    ensure_table(table, SCHEMA, dict(delta.STATE_TABLE_PROPERTIES) | {"delta.checkpointInterval": "3"})
    for version in range(1, 8):
        _append(table, version, _file(table, f"{version}.parquet", str(version)))
    log = sorted(file.name for file in (Path(table) / "_delta_log").iterdir())
    assert [name for name in log if name.endswith(".json")] == [f"{version:020d}.json" for version in range(8)]
    assert any(name.endswith(".checkpoint.parquet") for name in log)
    assert delta.transaction_version(table, "app") == 7
    assert pa.table(DeltaTable(table, version=2).to_pyarrow_table()).num_rows == 2


def test_a_sink_table_with_a_cleaned_up_old_log_is_rewound_all_the_same(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    ensure_table(table, SCHEMA, dict(delta.SINK_TABLE_PROPERTIES) | {"delta.checkpointInterval": "3"})
    files = [_file(table, f"{version}.parquet", str(version)) for version in range(1, 6)]
    for version, file in enumerate(files, 1):
        _append(table, version, file)
    log = Path(table) / "_delta_log"
    newest = max(int(file.name[:20]) for file in log.glob("*.checkpoint.parquet"))
    for version in range(newest):
        (log / f"{version:020d}.json").unlink()
    assert newest >= 3, "the log of the first commits is gone"
    assert delta.transaction_version(table, "app") == 5
    _replace(table, 6, [file.path for file in files[1:]])
    _replace(table, 7, [], files[1:2])
    assert _values(table) == ["1", "2"]


def test_removing_files_is_one_commit_and_takes_effect_once(table: str) -> None:
    _append(table, 1, _file(table, "1.parquet", "a"), _file(table, "2.parquet", "b"), _file(table, "3.parquet", "c"))
    for _ in range(2):
        assert _replace(table, 2, ["1.parquet", "3.parquet"]) == 2
    assert _values(table) == ["b"]


def test_a_column_that_differs_in_capital_letters_is_reported_as_such(tmp_path: Path) -> None:
    """For Spark it is the same column, for other readers of the files it is another one."""
    path = str(tmp_path / "table")
    ensure_table(path, pa.schema([pa.field("N", pa.int64()), pa.field("k", pa.string())]))
    with pytest.raises(StorageError, match="'n' is called 'N' there"):
        ensure_table(path, pa.schema([pa.field("n", pa.int64()), pa.field("k", pa.string())]))
    assert [str(one) for one in open_version(path).others(pa.schema([pa.field("gone", pa.int64())]))] == [
        "'gone' is missing, wanted long"
    ]
