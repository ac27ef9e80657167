"""How settings become backends, and where databases are stored."""

import tempfile
from pathlib import Path

import pytest

from state_engine.api import EmbeddedRocksDBStateBackend, HashMapStateBackend, PredefinedOptions
from state_engine.backends.choose import backend_maker, operator_folder
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, tuning_of
from state_engine.backends.time import OperatorTime
from state_engine.errors import LocalStateError
from state_engine.key_groups import KeyGroupRange
from state_engine.serialization.types import parse_columns

CODEC = KeyCodec(parse_columns("k string"), 128)


def test_the_heap_is_the_heap() -> None:
    made = backend_maker(HashMapStateBackend(), "root", "job", 1)("op", CODEC, KeyGroupRange(0, 9), KeyContext(), None)  # type: ignore[arg-type]
    assert type(made) is HeapKeyedStateBackend


def test_a_database_has_a_folder_per_operator_generation_and_range(tmp_path: Path) -> None:
    named = EmbeddedRocksDBStateBackend()
    named.set_db_storage_paths(str(tmp_path))
    made = backend_maker(named, "root", "job", 3)("op", CODEC, KeyGroupRange(64, 127), KeyContext(), OperatorTime())
    assert isinstance(made, RocksDBKeyedStateBackend)
    assert made.database.folder == operator_folder([str(tmp_path)], "root", "job", "op") / "3.64-127.128"
    assert made.database.folder.is_relative_to(tmp_path / "lakestate")


def test_operators_jobs_and_roots_do_not_share_and_are_spread_over_the_disks() -> None:
    paths = ["/mnt/a", "/mnt/b"]
    folders = {operator_folder(paths, root, job, uid) for root in "rs" for job in "jk" for uid in map(str, range(20))}
    assert len(folders) == 80
    assert {str(folder)[:6] for folder in folders} == set(paths)


def test_the_default_folder_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = operator_folder([], "root", "job", "op").parent
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(LocalStateError, match="not a folder of this user"):
        operator_folder([], "root", "job", "op")


@pytest.mark.parametrize("options", PredefinedOptions)
def test_a_database_opens_with_all_predefined_options(options: PredefinedOptions, tmp_path: Path) -> None:
    named = EmbeddedRocksDBStateBackend()
    named.set_predefined_options(options)
    named.get_memory_configuration().set_fixed_memory_per_slot("8mb")
    database = LocalDatabase(tmp_path / "range", tuning_of(named))
    assert database.acquire()
    database.close()
