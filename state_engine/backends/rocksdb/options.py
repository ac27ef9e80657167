"""Turns an author's settings into RocksDB's options: memory is shared by all databases of a process, and bounded."""

from functools import lru_cache
from typing import Any

import msgspec

from state_engine.api.state_backend import EmbeddedRocksDBStateBackend, PredefinedOptions
from state_engine.extras import from_extra

with from_extra("rocksdb"):
    from rocksdict import (
        BlockBasedIndexType,
        BlockBasedOptions,
        Cache,
        DBCompressionType,
        Options,
        WriteBufferManager,
    )

_MIB = 1 << 20


class Tuning(msgspec.Struct, frozen=True):
    """The settings from which options are made.

    Attributes:
        memory_bytes: Block cache and write buffers of all databases in the process together.
        write_buffer_ratio: Share of it for write buffers.
        predefined: Name of the predefined options.
    """

    memory_bytes: int = 256 * _MIB
    write_buffer_ratio: float = 0.5
    predefined: str = PredefinedOptions.DEFAULT.name


def tuning_of(backend: EmbeddedRocksDBStateBackend) -> Tuning:
    """Returns the tuning for an author's settings."""
    memory = backend.get_memory_configuration()
    return Tuning(
        memory.get_fixed_memory_per_slot(), memory.get_write_buffer_ratio(), backend.get_predefined_options().name
    )


@lru_cache(maxsize=8)
def _memory(memory_bytes: int, write_buffer_ratio: float) -> tuple[Any, Any]:
    cache = Cache(memory_bytes)
    buffers = int(memory_bytes * write_buffer_ratio)
    return cache, WriteBufferManager.new_write_buffer_manager_with_cache(buffers, False, cache)


def open_options(tuning: Tuning) -> Any:
    """Returns new options for one database."""
    cache, buffers = _memory(tuning.memory_bytes, tuning.write_buffer_ratio)
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)  # else they would grow with the state, outside the limit
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # In partitions: the filter of a whole file is larger than a shard of the cache, and would be read per look-up.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    table.set_bloom_filter(10, False)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_manager(buffers)
    # A database replays its log when it is opened, so buffers are small; and several must fit.
    options.set_write_buffer_size(max(_MIB, min(16 * _MIB, int(tuning.memory_bytes * tuning.write_buffer_ratio) // 4)))
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    _PREDEFINED[tuning.predefined](options, table)
    options.set_block_based_table_factory(table)
    return options


def _default(options: Any, table: Any) -> None:
    """Keeps RocksDB's own options."""


def _spinning(options: Any, table: Any) -> None:
    options.set_max_background_jobs(4)
    options.set_level_compaction_dynamic_level_bytes(True)


def _spinning_high_memory(options: Any, table: Any) -> None:
    _spinning(options, table)
    options.set_max_bytes_for_level_base(1024 * _MIB)
    options.set_target_file_size_base(256 * _MIB)
    table.set_block_size(128 << 10)


def _flash(options: Any, table: Any) -> None:
    options.set_max_background_jobs(4)


_PREDEFINED = {
    PredefinedOptions.DEFAULT.name: _default,
    PredefinedOptions.SPINNING_DISK_OPTIMIZED.name: _spinning,
    PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM.name: _spinning_high_memory,
    PredefinedOptions.FLASH_SSD_OPTIMIZED.name: _flash,
}


__all__ = ["Tuning", "open_options", "tuning_of"]
