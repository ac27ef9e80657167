"""The checks of a savepoint: each kind of damage fails the check that is named for it."""

from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakestate.assets import savepoint_checks as module
from lakestate.assets.savepoint_checks import (
    CHECKSUMS,
    COMPLETE,
    KEY_GROUPS,
    READABLE,
    ROW_COUNTS,
    check_savepoint,
    evaluate,
    savepoint_checks,
)
from lakestate.job_code import operators_of_code
from state_engine.epoch.unread import Unread
from state_engine.log.change_file import checksum_of
from state_engine.log.documents import decode_savepoint, encode_savepoint
from state_engine.log.paths import METADATA, savepoint_folder
from state_engine.savepoint import Finding, ValidationReport, trigger_savepoint
from state_engine.savepoint.fitness import Fitness
from state_engine.savepoint.restore_report import Refusal

NAMES = {COMPLETE, CHECKSUMS, KEY_GROUPS, ROW_COUNTS, READABLE}


def failed(stream, savepoint):
    results = check_savepoint(stream.state_store.root, "flights", savepoint.savepoint_id)
    assert {result.check_name for result in results} == NAMES
    return {result.check_name: result for result in results if not result.passed}


@pytest.fixture(autouse=True)
def unknown_code(monkeypatch):
    """Makes the names of these jobs meaningless: the code of the registered job with this name has other states."""
    monkeypatch.setattr(module, "operators_of_code", lambda job, root: lambda manifest: None)


@pytest.fixture(params=["native", "canonical"])
def savepoint(request, stream):
    stream.checkpoints(1, 2)
    stream.epoch()
    return trigger_savepoint(stream.state_store.root, "flights", kind=request.param)


def files_of(stream, savepoint):
    """Returns the state files of a savepoint; for a native one, those of its base and the change files."""
    root = Path(stream.state_store.root, "flights")
    if savepoint.kind == "native":
        return [root / path for path, _ in savepoint.handles if not path.endswith(".json")]
    folder = root / savepoint_folder(savepoint.savepoint_id)
    return [folder / file.path for table in savepoint.tables for file in table.files]


def write(path, data):
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_sound_savepoint_passes_all(stream, savepoint):
    assert failed(stream, savepoint) == {}


def test_a_file_that_is_gone_makes_it_incomplete(stream, savepoint):
    for path in files_of(stream, savepoint):
        data = path.read_bytes()
        path.unlink()
        assert failed(stream, savepoint).keys() == {COMPLETE, READABLE}
        path.write_bytes(data)


def test_other_bytes_fail_the_checksums(stream, savepoint):
    for path in files_of(stream, savepoint):
        data = path.read_bytes()
        write(path, data[:50] + bytes([data[50] ^ 1]) + data[51:])
        failures = failed(stream, savepoint)
        assert failures.keys() == {CHECKSUMS, READABLE}
        assert path.name in failures[CHECKSUMS].description
        write(path, data)


def rewritten(stream, savepoint, change):
    """Writes the first file of a canonical savepoint anew, and its metadata so that checksums agree."""
    folder = Path(stream.state_store.root, "flights", savepoint_folder(savepoint.savepoint_id))
    table = savepoint.tables[0]
    file = table.files[0]
    pq.write_table(change(pq.read_table(folder / file.path)), folder / f"{file.path}.new")
    data = (folder / f"{file.path}.new").read_bytes()
    (folder / f"{file.path}.new").unlink()
    write(folder / file.path, data)
    files = (replace(file, length=len(data), checksum=checksum_of(data)), *table.files[1:])
    tables = (replace(table, files=files), *savepoint.tables[1:])
    write(folder / METADATA, encode_savepoint(replace(savepoint, tables=tables))[0])
    assert decode_savepoint((folder / METADATA).read_bytes(), path=METADATA)


@pytest.fixture
def canonical(stream):
    stream.checkpoints(1, 1)
    return trigger_savepoint(stream.state_store.root, "flights", kind="canonical")


def test_a_key_in_a_key_group_that_is_not_its_own_is_found(stream, canonical):
    def astray(table):
        keys = table["tailnum"].to_pylist()
        return table.set_column(table.schema.get_field_index("tailnum"), "tailnum", pa.array(["X", *keys[1:]]))

    rewritten(stream, canonical, astray)
    assert failed(stream, canonical).keys() == {KEY_GROUPS, READABLE}


def test_a_row_too_few_is_found(stream, canonical):
    rewritten(stream, canonical, lambda table: table.slice(1))
    failures = failed(stream, canonical)
    assert READABLE in failures
    assert failures.keys() & {ROW_COUNTS, COMPLETE}


def test_a_savepoint_that_the_code_does_not_fit_is_a_warning(stream, savepoint):
    report = ValidationReport("sp-1", "native", (), 3, 20)
    reason = Refusal(error="UnknownOperatorError", message="Operator x is gone.", action="Bring it back.")
    by_check = {result.check_name: result for result in evaluate("flights", report, Fitness((reason,), ()))}
    assert [name for name, result in by_check.items() if not result.passed] == [READABLE]
    assert by_check[READABLE].severity == dg.AssetCheckSeverity.WARN
    assert by_check[READABLE].description == "UnknownOperatorError: Operator x is gone. Bring it back."
    [readable] = [
        result
        for result in check_savepoint(stream.state_store.root, "flights", savepoint.savepoint_id)
        if result.check_name == READABLE
    ]
    assert readable.passed
    assert readable.description.startswith("Not checked")


@pytest.mark.parametrize("before", [False, True])
def test_what_the_code_does_not_read_is_named_and_a_warning_if_it_is_new(before):
    report = ValidationReport("sp-1", "native", (), 3, 20)
    unread = Unread(uid="a", state="s", kind="keyed", fields=("x",), before=before, rows=7, bytes=99)
    readable = {result.check_name: result for result in evaluate("flights", report, Fitness((), (unread,)))}[READABLE]
    assert readable.passed is before
    assert readable.severity == dg.AssetCheckSeverity.WARN
    assert ("x of state 's' of operator 'a' (7 rows, 99 bytes)" in readable.description) is not before
    [record] = readable.metadata["findings"].records
    assert record.data["what"] == "not read"
    assert "7 rows, 99 bytes" in record.data["problem"]


def test_the_code_of_a_registered_job_is_compared(stream, canonical, monkeypatch):
    monkeypatch.setattr(module, "operators_of_code", operators_of_code)
    reason = failed(stream, canonical)[READABLE]
    assert reason.metadata["code_was_asked"].value is True
    assert reason.description.startswith("MaxParallelismChangedError: ")


def test_damage_blocks_and_is_an_error():
    specs = {spec.name: spec for spec in savepoint_checks("flights")}
    assert specs.keys() == NAMES
    assert {name for name, spec in specs.items() if spec.blocking} == NAMES - {READABLE}
    findings = tuple(Finding(f"file-{number}", "it is gone", "files") for number in range(50))
    by_check = {
        result.check_name: result for result in evaluate("flights", ValidationReport("a", "native", findings), None)
    }
    assert by_check[COMPLETE].severity == dg.AssetCheckSeverity.ERROR
    assert by_check[COMPLETE].description == "50 findings; the first: file-0: it is gone"
    assert len(by_check[COMPLETE].metadata["findings"].records) == 20
