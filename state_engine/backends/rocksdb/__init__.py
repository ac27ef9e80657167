"""Keyed state in RocksDB, on the disks of the workers."""

from state_engine.backends.rocksdb.backend import RocksDBKeyedStateBackend
from state_engine.backends.rocksdb.database import LocalDatabase
from state_engine.backends.rocksdb.options import Tuning, tuning_of
from state_engine.backends.rocksdb.ranges import RangeFolder

__all__ = ["LocalDatabase", "RangeFolder", "RocksDBKeyedStateBackend", "Tuning", "tuning_of"]
