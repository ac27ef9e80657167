"""The choice of a state backend, as a job's author makes it; PyFlink's classes of the same names.

They are plain settings that are sent to the workers; `state_engine.backends` implements them.
"""

import math
import os
import re
from enum import Enum

from state_engine.errors import JobDefinitionError

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_SIZE = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)


class StateBackend:
    """Where a worker keeps its working state. Checkpoints do not depend on this choice."""


class HashMapStateBackend(StateBackend):
    """Keeps state in the worker's memory (Flink: the heap). The default, and the fastest while state fits."""

    def __repr__(self) -> str:
        return "HashMapStateBackend()"


class PredefinedOptions(Enum):
    """Predefined RocksDB options for kinds of disk, as in Flink."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class RocksDBMemoryConfiguration:
    """Limits the memory of RocksDB in one Python worker, over all key-group ranges that the worker holds.

    Flink's managed memory has no counterpart: the limit is always fixed.
    """

    def __init__(self) -> None:
        self._bytes = 256 << 20
        self._write_buffer_ratio = 0.5

    def set_fixed_memory_per_slot(self, size: int | str) -> None:
        """Sets the limit, as bytes or as text like `512mb`; at least 8 MiB.

        Raises:
            JobDefinitionError: It is not a size, or too small.
        """
        number_of_bytes = size if isinstance(size, int) else parse_size(size)
        if number_of_bytes < 8 << 20:
            raise JobDefinitionError(
                f"{size!r} is too little memory for RocksDB.", action="Give it at least 8mb; 256mb is the default."
            )
        self._bytes = number_of_bytes

    def get_fixed_memory_per_slot(self) -> int:
        """Returns the limit in bytes."""
        return self._bytes

    def set_write_buffer_ratio(self, ratio: float) -> None:
        """Sets the share of the limit that write buffers may take; the rest caches blocks.

        Raises:
            JobDefinitionError: It is not between 0 and 1.
        """
        if not 0 < ratio < 1 or math.isnan(ratio):
            raise JobDefinitionError(
                f"{ratio!r} is not a share of the memory.", action="Give a number between 0 and 1; 0.5 is the default."
            )
        self._write_buffer_ratio = ratio

    def get_write_buffer_ratio(self) -> float:
        """Returns the share of the limit that write buffers may take."""
        return self._write_buffer_ratio


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on the worker's local disks, for state larger than memory.

    Args:
        enable_incremental_checkpointing: Exists only for PyFlink's signature. An epoch always writes only its changes;
            False is refused.

    Raises:
        JobDefinitionError: `enable_incremental_checkpointing` is False.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing is False:
            raise JobDefinitionError(
                "Checkpoints of Lakestate are incremental with every backend.",
                action="Leave enable_incremental_checkpointing out.",
            )
        self._paths: tuple[str, ...] = ()
        self._options = PredefinedOptions.DEFAULT
        self._memory = RocksDBMemoryConfiguration()

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Returns True: an epoch writes only its changes."""
        return True

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets the local folders for databases, which are spread over them; they must exist on each worker's host.

        Raises:
            JobDefinitionError: One is not an absolute path of the local file system.
        """
        for path in paths:
            if not os.path.isabs(path):
                raise JobDefinitionError(
                    f"{path!r} is not an absolute local path.", action="Give folders such as /mnt/ssd1/state."
                )
        self._paths = paths

    def get_db_storage_paths(self) -> list[str]:
        """Returns the local folders; empty means a folder below the system's folder for temporary files."""
        return list(self._paths)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Sets the options for a kind of disk."""
        self._options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Returns the options that were set."""
        return self._options

    def get_memory_configuration(self) -> RocksDBMemoryConfiguration:
        """Returns the memory limits; change them in place."""
        return self._memory

    def __repr__(self) -> str:
        return f"EmbeddedRocksDBStateBackend({self._options.name}, {self._memory.get_fixed_memory_per_slot()} bytes)"


def state_backend_of(given: "StateBackend | str") -> StateBackend:
    """Returns the backend for a name, `heap` (also `hashmap`) or `rocksdb`, or for an instance.

    Raises:
        JobDefinitionError: This backend does not exist.
    """
    if isinstance(given, (HashMapStateBackend, EmbeddedRocksDBStateBackend)):
        return given
    if given in ("heap", "hashmap"):
        return HashMapStateBackend()
    if given == "rocksdb":
        return EmbeddedRocksDBStateBackend()
    raise JobDefinitionError(
        f"There is no state backend {given!r}.",
        action="Give 'heap', 'rocksdb', HashMapStateBackend() or EmbeddedRocksDBStateBackend().",
    )


def parse_size(text: str) -> int:
    """Returns the number of bytes of a text such as `512mb`.

    Raises:
        JobDefinitionError: It is not a size.
    """
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise JobDefinitionError(f"{text!r} is not a size.", action="Write it like 512mb or 2g.")
    return int(match[1]) * unit


__all__ = [
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "RocksDBMemoryConfiguration",
    "StateBackend",
    "parse_size",
    "state_backend_of",
]
