"""Records key by key, for functions that get one at a time: what they look at is then in the processor's caches.

Records of an epoch come in no order. A function that has 50,000 keys looks for the state of each record's key in
memory, or in RocksDB; with those of a key side by side it does so once for all of them. They keep their order.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from state_engine.api.functions import KeyedBatchProcessFunction
from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.runtime.batch_function import joined
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.spec import OperatorSpec

_MOST_BYTES, _MOST_RECORDS = 32 << 20, 1_000_000
"""So much waits at most; an order of more records gains little."""
_AT_ONCE = 10_000
"""Records go on in batches of so many, as from Spark."""
_ENOUGH_KEYS = 2_000
"""The states of fewer stay in the caches anyway."""
_ENOUGH_PER_KEY = 2


class RecordsByKey:
    """Gathers batches of one epoch, and gives their records out again, in another order where that pays.

    Args:
        key: Names of the key columns.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self._key = tuple(key)
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = self._records = 0

    @classmethod
    def of(cls, spec: OperatorSpec) -> "RecordsByKey | None":
        """Returns what gathers an operator's records; None where they have an order, or are taken together anyway."""
        by_row = spec.kind == "keyed_process" and not isinstance(spec.function, KeyedBatchProcessFunction)
        return cls([column.name for column in spec.key]) if by_row and not spec.order_by else None

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch; yields what waits in front of it if there would be too much.

        Records with event times go on at once: they come in the order of these, which watermarks and timers follow. So
        does a batch that is too large to wait.
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
        """Yields what waits."""
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
        """Returns the positions of records key by key; None where they may stay as they are."""
        keys = Keys([records.column(name) for name in self._key], _unread)
        number = len(keys.first)
        pays = number >= _ENOUGH_KEYS and number * _ENOUGH_PER_KEY <= len(keys)
        return order_of(keys.codes) if pays else None


def _unread(columns: object) -> list[object]:
    raise AssertionError("keys are numbered, and no more")


__all__ = ["RecordsByKey"]
