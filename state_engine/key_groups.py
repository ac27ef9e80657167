"""Key groups: the unit of state distribution.

`key_group = pmod(xxhash64(key columns), max_parallelism)`, where `xxhash64` is Spark SQL's: seed 42, chained over the
columns, nulls skipped, signed. The same number comes out in the JVM and here, bit for bit. Formulas for ranges,
subtasks and the default of max parallelism are Flink's (`KeyGroupRangeAssignment`).
"""

import datetime
import decimal
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from state_engine.errors import JobDefinitionError, UnsupportedTypeError

SEED = 42
DEFAULT_LOWER_BOUND = 128
UPPER_BOUND = 32768

Hashes = NDArray[np.uint64]
"""Unsigned `xxhash64` of many keys, or of their first columns."""

_INT = struct.Struct("<i").pack
_LONG = struct.Struct("<q").pack
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_EPOCH_NTZ = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class KeyGroupRange(NamedTuple):
    """Key groups from `first` to `last`, both inclusive; empty when `last < first`."""

    first: int
    last: int

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.first <= key_group <= self.last

    @property
    def size(self) -> int:
        """The number of key groups."""
        return max(0, self.last - self.first + 1)


def default_max_parallelism(parallelism: int) -> int:
    """Returns Flink's default: the next power of two of 1.5 times the parallelism, at least 128, at most 32768."""
    check_parallelism(parallelism, UPPER_BOUND)
    wanted = parallelism + parallelism // 2
    power = 1 << max(0, wanted - 1).bit_length()
    return min(max(power, DEFAULT_LOWER_BOUND), UPPER_BOUND)


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Raises JobDefinitionError unless 1 <= parallelism <= max_parallelism <= 32768."""
    if not 1 <= max_parallelism <= UPPER_BOUND:
        raise JobDefinitionError(
            f"Max parallelism {max_parallelism} is out of bounds.", action=f"Use 1 to {UPPER_BOUND} key groups."
        )
    if not 1 <= parallelism <= max_parallelism:
        raise JobDefinitionError(
            f"Parallelism {parallelism} is out of bounds: the job has {max_parallelism} key groups.",
            action=f"Use 1 to {max_parallelism}, or a larger max parallelism for a new job.",
        )


def subtask_of(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """Returns the subtask that owns a key group."""
    return key_group * parallelism // max_parallelism


def range_of(subtask: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """Returns the key groups of a subtask."""
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(first, last)


def _decimal_hash(precision: int, scale: int) -> Callable[[Any, int], int]:
    context = decimal.Context(prec=77)

    def hash_decimal(value: decimal.Decimal, seed: int) -> int:
        unscaled = int(value.scaleb(scale, context).to_integral_value())
        if precision <= 18:
            return xxhash.xxh64_intdigest(_LONG(unscaled), seed)
        length = (unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()) // 8 + 1
        return xxhash.xxh64_intdigest(unscaled.to_bytes(length, "big", signed=True), seed)

    return hash_decimal


def _timestamp(epoch: datetime.datetime) -> Callable[[Any, int], int]:
    def hash_timestamp(value: datetime.datetime, seed: int) -> int:
        if epoch.tzinfo and value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        return xxhash.xxh64_intdigest(_LONG((value - epoch) // _MICROSECOND), seed)

    return hash_timestamp


_HASHES: dict[str, Callable[[Any, int], int]] = {
    "boolean": lambda v, seed: xxhash.xxh64_intdigest(_INT(1 if v else 0), seed),
    "tinyint": lambda v, seed: xxhash.xxh64_intdigest(_INT(v), seed),
    "smallint": lambda v, seed: xxhash.xxh64_intdigest(_INT(v), seed),
    "int": lambda v, seed: xxhash.xxh64_intdigest(_INT(v), seed),
    "bigint": lambda v, seed: xxhash.xxh64_intdigest(_LONG(v), seed),
    "string": lambda v, seed: xxhash.xxh64_intdigest(v.encode(), seed),
    "binary": lambda v, seed: xxhash.xxh64_intdigest(v, seed),
    "date": lambda v, seed: xxhash.xxh64_intdigest(_INT(v.toordinal() - _EPOCH), seed),
    "timestamp": _timestamp(_EPOCH_UTC),
    "timestamp_ntz": _timestamp(_EPOCH_NTZ),
}


def key_hasher(types: Sequence[str]) -> Callable[[Sequence[Any]], int]:
    """Returns a function from the values of the key columns to Spark's signed `xxhash64`.

    Args:
        types: Spark DDL of the key columns.

    Raises:
        UnsupportedTypeError: A type has no stable, exact equality (floating point, nested, collated).
    """
    hashes = [_hash_of(ddl) for ddl in types]

    def hash_key(values: Sequence[Any]) -> int:
        seed = SEED
        for hash_value, value in zip(hashes, values, strict=True):
            if value is not None:
                seed = hash_value(value, seed)
        return seed - (1 << 64) if seed >= 1 << 63 else seed

    return hash_key


def _hash_of(ddl: str) -> Callable[[Any, int], int]:
    if ddl.startswith("decimal("):
        precision, scale = ddl[len("decimal(") : -1].split(",")
        return _decimal_hash(int(precision), int(scale))
    if ddl not in _HASHES:
        raise UnsupportedTypeError(
            f"A key cannot have the type {ddl}.",
            action="Key by integers, string, binary, boolean, date, timestamp or decimal; cast or extract first.",
        )
    return _HASHES[ddl]


def key_group_of(values: Sequence[Any], types: Sequence[str], max_parallelism: int) -> int:
    """Returns the key group of one key."""
    return key_hasher(types)(values) % max_parallelism


_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotate(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def hash_integers(values: "np.ndarray[Any, Any]", ddl: str, seeds: Hashes) -> Hashes:
    """Returns `xxhash64` of a column of integers, without a Python object per value.

    Args:
        values: Integers, no nulls.
        ddl: `bigint`, or a narrower type (which hashes as `int`).
        seeds: For each value, the hash of the columns before this one.
    """
    u = np.uint64
    with np.errstate(over="ignore"):
        if ddl == "bigint":
            state = seeds + u((_P5 + 8) & (2**64 - 1))
            lane = values.astype(np.int64).view(np.uint64) * u(_P2)
            state ^= _rotate(lane, 31) * u(_P1)
            state = _rotate(state, 27) * u(_P1) + u(_P4)
        else:
            state = seeds + u((_P5 + 4) & (2**64 - 1))
            state ^= values.astype(np.int32).view(np.uint32).astype(np.uint64) * u(_P1)
            state = _rotate(state, 23) * u(_P2) + u(_P3)
        state ^= state >> u(33)
        state *= u(_P2)
        state ^= state >> u(29)
        state *= u(_P3)
        state ^= state >> u(32)
    return state


def hash_values(values: Sequence[Any], ddl: str, seeds: Hashes) -> Hashes:
    """Returns `xxhash64` of a column of any key type, as `hash_integers` does for integers; None keeps the seed."""
    chained = seeds.tolist()
    if ddl == "string" and None not in values:
        return np.fromiter(map(xxhash.xxh64_intdigest, map(str.encode, values), chained), np.uint64, len(values))
    hash_value = _hash_of(ddl)
    hashes = (seed if v is None else hash_value(v, seed) for v, seed in zip(values, chained, strict=True))
    return np.fromiter(hashes, np.uint64, len(values))


__all__ = [
    "SEED",
    "Hashes",
    "KeyGroupRange",
    "check_parallelism",
    "default_max_parallelism",
    "hash_integers",
    "hash_values",
    "key_group_of",
    "key_hasher",
    "range_of",
    "subtask_of",
]
