"""Sorts records by key, for functions that get one record at a time: a key's state is then in the CPU caches.

Records of an epoch come in no order. A function with 50,000 keys looks up the state of each record's key in memory or
in RocksDB. With the records of a key side by side, it does so once per key. Records of one key keep their order.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from state_engine.api.functions import KeyedBatchProcessFunction
from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.runtime.batch_function import joined
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.spec import OperatorSpec

_MOST_BYTES, _MOST_RECORDS = 32 << 20, 1_000_000
"""Records wait up to these limits; sorting more records gains little."""
_AT_ONCE = 10_000
"""Records per batch that is passed on, as from Spark."""
_ENOUGH_KEYS = 2_000
"""The states of fewer keys stay in the caches anyway."""
_ENOUGH_PER_KEY = 2


class RecordsByKey:
    """Collects batches of one epoch and yields their records, sorted by key where that pays.

    Args:
        key: Names of the key columns.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self._key = tuple(key)
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = self._records = 0

    @classmethod
    def of(cls, spec: OperatorSpec) -> "RecordsByKey | None":
        """Returns a collector for an operator's records; None if they have an order, or its function takes batches."""
        by_row = spec.kind == "keyed_process" and not isinstance(spec.function, KeyedBatchProcessFunction)
        return cls([column.name for column in spec.key]) if by_row and not spec.order_by else None

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch; first yields the waiting records if the batch would exceed a limit.

        Records with event times are yielded at once: they come in the order of their times, which watermarks and timers
        follow. A batch that is too large to wait is yielded at once too.
        """
        size = batch.nbytes
        if self._bytes + size > _MOST_BYTES or self._records + batch.num_rows > _MOST_RECORDS:
            yield from self.rest()
        if EVENT_TIME in batch.schema.names or size > _MOST_BYTES:
            yield batch
            return
        self._waiting.append(batch)
        self._bytes += size
        self._records += batch.num_rows

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields the waiting records."""
        waiting, count = self._waiting, self._records
        self._waiting, self._bytes, self._records = [], 0, 0
        records = joined(waiting) if count > _AT_ONCE else None
        order = self._order(records) if records is not None else None
        if records is None or order is None:
            yield from waiting
            return
        waiting.clear()
        for start in range(0, len(order), _AT_ONCE):
            yield records.take(indices(order[start : start + _AT_ONCE]))

    def _order(self, records: pa.RecordBatch) -> Numbers | None:
        """Returns the positions of records, key by key; None if sorting does not pay."""
        keys = Keys([records.column(name) for name in self._key], _unread)
        number = len(keys.first)
        pays = number >= _ENOUGH_KEYS and number * _ENOUGH_PER_KEY <= len(keys)
        return order_of(keys.codes) if pays else None


def _unread(columns: object) -> list[object]:
    raise AssertionError("keys are only numbered, never read")


__all__ = ["RecordsByKey"]
