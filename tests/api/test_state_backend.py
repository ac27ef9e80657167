"""State backends as an author names them."""

import pickle

import pytest

from state_engine.api import EmbeddedRocksDBStateBackend, HashMapStateBackend, PredefinedOptions
from state_engine.api.state_backend import state_backend_of
from state_engine.errors import JobDefinitionError


@pytest.mark.parametrize(
    ("named", "kind"),
    [("heap", HashMapStateBackend), ("hashmap", HashMapStateBackend), ("rocksdb", EmbeddedRocksDBStateBackend)],
)
def test_names_select_backends(named: str, kind: type) -> None:
    assert type(state_backend_of(named)) is kind


def test_an_instance_is_used_as_it_is() -> None:
    for backend in (HashMapStateBackend(), EmbeddedRocksDBStateBackend()):
        assert state_backend_of(backend) is backend


@pytest.mark.parametrize("other", ["RocksDB", "", None, HashMapStateBackend])
def test_anything_else_is_refused(other: object) -> None:
    with pytest.raises(JobDefinitionError, match="'rocksdb'"):
        state_backend_of(other)  # type: ignore[arg-type]


def test_settings_travel_to_the_workers() -> None:
    backend = EmbeddedRocksDBStateBackend(True)
    backend.set_db_storage_paths("/mnt/a", "/mnt/b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.get_memory_configuration().set_fixed_memory_per_slot("64mb")
    backend.get_memory_configuration().set_write_buffer_ratio(0.25)
    copy = pickle.loads(pickle.dumps(backend))
    assert copy.get_db_storage_paths() == ["/mnt/a", "/mnt/b"]
    assert copy.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert copy.get_memory_configuration().get_fixed_memory_per_slot() == 64 << 20
    assert copy.get_memory_configuration().get_write_buffer_ratio() == 0.25
    assert copy.is_incremental_checkpoints_enabled()


@pytest.mark.parametrize(
    ("text", "size"), [("8mb", 8 << 20), (" 2 G ", 2 << 30), ("9000k", 9_216_000), (1 << 24, 1 << 24)]
)
def test_sizes_are_numbers_or_text(text: int | str, size: int) -> None:
    memory = EmbeddedRocksDBStateBackend().get_memory_configuration()
    memory.set_fixed_memory_per_slot(text)
    assert memory.get_fixed_memory_per_slot() == size


@pytest.mark.parametrize("size", ["", "much", "-1mb", "1.5g", "8 parsecs", "7mb", 1000])
def test_what_is_no_size_or_too_small_is_refused(size: int | str) -> None:
    with pytest.raises(JobDefinitionError):
        EmbeddedRocksDBStateBackend().get_memory_configuration().set_fixed_memory_per_slot(size)


@pytest.mark.parametrize("ratio", [0, 1, -0.1, float("nan")])
def test_a_share_is_between_nothing_and_all(ratio: float) -> None:
    with pytest.raises(JobDefinitionError):
        EmbeddedRocksDBStateBackend().get_memory_configuration().set_write_buffer_ratio(ratio)


def test_checkpoints_cannot_be_made_otherwise_than_incrementally() -> None:
    with pytest.raises(JobDefinitionError, match="incremental"):
        EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False)


def test_folders_are_absolute() -> None:
    with pytest.raises(JobDefinitionError, match="here/state"):
        EmbeddedRocksDBStateBackend().set_db_storage_paths("/mnt/a", "here/state")
