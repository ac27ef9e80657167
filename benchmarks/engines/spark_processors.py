"""The functions for `transformWithState`. Each reads a key's state once per epoch, since calls to the JVM cost most."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

ITEMS, EVERY = 10, 8
HOUR_MS = 3_600_000


class RunningCount(StatefulProcessor):
    """Counts the records of a key and emits the count with each record.

    Args:
        ttl_ms: Time to live of the count.
    """

    def __init__(self, ttl_ms: int | None = None) -> None:
        self.ttl_ms = ttl_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n bigint", self.ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        held = self.count.get()
        n = held[0] if held is not None else 0
        for _ in rows:
            n += 1
            yield Row(k=key[0], n=n)
        self.count.update((n,))

    def close(self) -> None: ...


class MapAndList(StatefulProcessor):
    """Counts a key's items in a map, keeps its values in a list; every eighth of an item emits the list's sum."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.counts = handle.getMapState("counts", "item int", "n bigint")
        self.values = handle.getListState("values", "v bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        counts = {item[0]: n[0] for item, n in self.counts.iterator()}
        values = [value[0] for value in self.values.get()]
        changed = set()
        for row in rows:
            n = counts[row.item] = counts.get(row.item, 0) + 1
            changed.add(row.item)
            values.append(row.v)
            if n % EVERY == 0:
                yield Row(k=key[0], item=row.item, n=n, total=sum(values))
                values = []
        for item in changed:
            self.counts.updateValue((item,), (counts[item],))
        if values:
            self.values.put([(value,) for value in values])
        else:
            self.values.clear()

    def close(self) -> None: ...


class Sessions(StatefulProcessor):
    """Counts the records of a key until none arrives for the gap, in event time."""

    def __init__(self, gap_ms: int) -> None:
        self.gap = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.session = handle.getValueState("session", "n bigint, last bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        before = self.session.get()
        count, last = before if before is not None else (0, None)
        for row in rows:
            if last is not None and last + self.gap < row.t:
                yield Row(k=key[0], n=count)
                count = 0
            count, last = count + 1, row.t
        if before is not None:
            self.handle.deleteTimer(before[1] + self.gap)
        self.session.update((count, last))
        self.handle.registerTimer(last + self.gap)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        held = self.session.get()
        if held is not None and held[1] + self.gap == expiredTimerInfo.getExpiryTimeInMs():
            self.session.clear()
            yield Row(k=key[0], n=held[0])

    def close(self) -> None: ...
