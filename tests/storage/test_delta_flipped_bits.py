"""One flipped bit in the log of a Delta table: our commits are read unchanged, or refused with a named error."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from state_engine.errors import DamagedFileError, LakestateError
from state_engine.storage import delta_durable
from state_engine.storage.delta import DeltaFile, DeltaOpener, create_table, open_version
from state_engine.storage.delta_digests import HINT, INFO
from state_engine.storage.table_log import Commit

SCHEMA = pa.schema([("a", pa.int64())])
BUNDLED = '{"numRecords":1,"minValues":{"a":1},"maxValues":{"a":1},"nullCount":{"a":0}}'


def commit(path: Path, version: int, removed: tuple[str, ...] = ()) -> None:
    added = [DeltaFile(f"part-{version}-{n}.parquet", 100 + n, 1, BUNDLED if n else "", version) for n in range(2)]
    open_version(str(path)).commit(
        Commit("lakestate/job/out", version, removed, added, 1_700_000_000_000, marks={"lakestate/birth/job": 77})
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a checkpoint of ours in the middle of its log."""
    path = tmp_path_factory.mktemp("flips") / "table"
    create_table(str(path), SCHEMA, {})
    for version in range(1, 5):
        commit(path, version, (f"part-{version - 1}-0.parquet",) if version > 1 else ())
    delta_durable.write_checkpoint(str(path), 4)
    for version in range(5, 8):
        commit(path, version, (f"part-{version - 2}-1.parquet",))
    return path


def seen(path: Path) -> Any:
    """Returns what the protocol reads of a table."""
    table = open_version(str(path))
    apps = ("lakestate/job/out", "lakestate/birth/job", "another")
    return sorted(table.files()), [table.transaction_version(app) for app in apps], table.version


def flips(made: Path, choose: Callable[[list[tuple[Path, int]]], list[tuple[Path, int]]]) -> list[str]:
    """Flips chosen bits of the log, one at a time; returns those that were read as something else."""
    expected, log = seen(made), made / "_delta_log"
    bits = [(file, bit) for file in sorted(log.iterdir()) for bit in range(file.stat().st_size * 8)]
    silent = []
    for file, bit in choose(bits):
        sound = file.read_bytes()
        flipped = bytearray(sound)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        try:
            if (found := seen(made)) != expected:
                silent.append(f"bit {bit} of {file.name}: {found}")
        except LakestateError:
            pass
        finally:
            file.write_bytes(sound)
    return silent


def test_no_flipped_bit_of_a_log_is_read_as_something_else(made: Path) -> None:
    seed = random.randrange(1 << 32)
    assert flips(made, lambda bits: random.Random(seed).sample(bits, 500)) == [], f"seed {seed}"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
def test_no_byte_of_a_log_is_read_as_something_else(made: Path, part: int) -> None:
    rng = random.Random(part)
    assert flips(made, lambda bits: [bits[at + rng.randrange(8)] for at in range(8 * part, len(bits), 64)]) == []


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "table"))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("00000000000000000006.json", b'"version":6', b'"version":5'),
        ("00000000000000000006.json", b'{"add"', b'{"adt"'),
        ("00000000000000000006.json", b'{"remove"', b'{"remoue"'),
        ("00000000000000000006.json", b"part-6-1", b"part-6-3"),
        ("00000000000000000006.json", b'"size":101', b'"size":100'),
        ("00000000000000000006.json", b'numRecords\\":1', b'numRecords\\":3'),
        ("00000000000000000006.json", b'"modificationTime":6', b'"modificationTime":7'),
    ],
)
def test_an_entry_of_ours_that_says_something_else_is_refused(table: Path, name: str, old: bytes, new: bytes) -> None:
    entry = table / "_delta_log" / name
    assert old in entry.read_bytes()
    entry.write_bytes(entry.read_bytes().replace(old, new, 1))
    with pytest.raises(DamagedFileError, match=f"{name} in the log of the Delta table .*table is not what was written"):
        open_version(str(table))


def test_a_writer_compares_what_is_new_since_it_has_opened_the_table(table: Path) -> None:
    opener = DeltaOpener(str(table))
    opener.open()
    commit(table, 8)
    entry = table / "_delta_log/00000000000000000008.json"
    entry.write_bytes(entry.read_bytes().replace(b"part-8-1", b"part-8-9"))
    with pytest.raises(DamagedFileError):
        opener.open()


def test_a_checkpoint_of_ours_that_was_changed_is_refused(table: Path) -> None:
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    data = bytearray(checkpoint.read_bytes())
    data[data.index(b"part-3")] ^= 1
    checkpoint.write_bytes(data)
    with pytest.raises(DamagedFileError, match=f"{checkpoint.name} in the log"):
        open_version(str(table))


def test_a_checkpoint_of_another_writer_that_lacks_a_transaction_of_ours_is_refused(table: Path) -> None:
    """The checkpoint has no digest, but the log still has our entry of its version."""
    log = table / "_delta_log"
    entry = log / "00000000000000000007.json"
    sound = entry.read_bytes()
    entry.write_bytes(sound.replace(b'"version":7', b'"version":6').replace(INFO.encode(), b"x"))
    DeltaTable(str(table)).create_checkpoint()
    entry.write_bytes(sound)
    with pytest.raises(DamagedFileError, match="The checkpoint's transaction of 'lakestate/job/out'"):
        open_version(str(table))


def test_what_others_write_is_read_as_it_is(table: Path) -> None:
    write_deltalake(str(table), pa.table({"a": [1]}), mode="append")
    commit(table, 8)
    DeltaTable(str(table)).create_checkpoint()
    assert b"lakestate" not in (table / "_delta_log" / HINT).read_bytes()
    files, transactions, version = seen(table)
    assert (transactions, version) == ([8, 77, None], 9)
    assert len([file for file in files if not file.startswith("part-8")]) == len(seen(table)[0]) - 2


def test_a_log_that_was_cleaned_is_read(table: Path) -> None:
    expected = seen(table)
    delta_durable.write_checkpoint(str(table), 7)
    for entry in (table / "_delta_log").glob("*.json"):
        entry.unlink()
    assert seen(table) == expected
