"""Instances that use the database of one folder in turn, as workers do, and the log, which outlives them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from state_engine.api import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.testing.state_harness import StateHarness

COUNT = ValueStateDescriptor("count", Types.LONG())
TAGS = ListStateDescriptor("tags", Types.STRING())
ROUTES = MapStateDescriptor("routes", Types.STRING(), Types.LONG())
TOTAL = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
ALL: list[StateDescriptor] = [COUNT, TAGS, ROUTES, TOTAL]


class Turns:
    """Instances over one folder, and the log that all of them share.

    Args:
        folder: The folder of the range.
        epochs: The changes of each sealed epoch.
        on_resume: Called with an instance that found a database, and the epoch of its token, before it is caught up.

    Attributes:
        made: All backends so far.
        loads: How many states were loaded from the log.
    """

    def __init__(
        self,
        folder: Path,
        epochs: Iterable[Any] = (),
        on_resume: Callable[[StateHarness, int], None] = lambda harness, epoch: None,
    ) -> None:
        self.folder = folder
        self.epochs = list(epochs)
        self.made: list[RocksDBKeyedStateBackend] = []
        self.loads = 0
        self._on_resume = on_resume

    def make(self, *args: Any) -> RocksDBKeyedStateBackend:
        """Makes the backend of an instance."""
        self.made.append(RocksDBKeyedStateBackend(*args, LocalDatabase(self.folder, Tuning(), wait_s=5)))
        return self.made[-1]

    def instance(self) -> StateHarness:
        """Returns an instance at the newest manifest, whatever the folder contained."""
        harness = StateHarness(self.make, "k bigint")
        backend: Any = harness.backend
        token = backend.resume()
        if token is None:
            backend.start(f"t{len(self.epochs)}")
            self.attach(harness)
        else:
            for descriptor in ALL:
                backend.state(descriptor)
            self._on_resume(harness, int(token[1:]))
            self.catch_up(harness, int(token[1:]))
        return harness

    def catch_up(self, harness: StateHarness, position: int) -> None:
        """Applies the log from a position on."""
        backend: Any = harness.backend
        for number, epoch in enumerate(self.epochs[position:], position + 1):
            for schema, rows in epoch:
                backend.apply(schema.name, rows)
            backend.commit(f"t{number}")
        self.attach(harness)

    def attach(self, harness: StateHarness) -> None:
        """Lets an instance load from the log what its database lacks."""
        harness.epochs = self.epochs
        schemas = {schema.name: schema for epoch in self.epochs for schema, _ in epoch}

        def load(schema: Any) -> Iterable[Any]:
            self.loads += 1
            return harness.tables(schema)

        harness.backend.attach(list(schemas.values()), load)

    def seal(self, harness: StateHarness) -> None:
        """Ends an epoch of an instance, and tells the instance that the epoch was sealed."""
        backend: Any = harness.backend
        self.epochs.append(backend.freeze(0))
        harness.epochs = self.epochs
        backend.settle()
        backend.commit(f"t{len(self.epochs)}")

    def close(self) -> None:
        """Closes all databases."""
        for backend in self.made:
            backend.close()
