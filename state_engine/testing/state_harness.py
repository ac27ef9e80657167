"""Runs a keyed state backend epoch by epoch, with a log that tests can read: the state suite uses it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.backends.keyed import KeyedStateBackend, MakeBackend
from state_engine.backends.keys import KeyCodec, KeyContext, Namespaced
from state_engine.backends.schemas import state_schema
from state_engine.backends.time import NO_WATERMARK, OperatorTime
from state_engine.epoch.compatibility import merge_schemas
from state_engine.key_groups import KeyGroupRange
from state_engine.log import ops as log
from state_engine.log.evolution import convert_rows, counts
from state_engine.log.fold import fold
from state_engine.log.ops import with_position
from state_engine.log.records import StateSchema
from state_engine.log.state_ttl import drop_expired
from state_engine.serialization.types import ddl_to_arrow, parse_columns

UID = "operator"
MAX_PARALLELISM = 13
ALL_KEY_GROUPS = KeyGroupRange(0, MAX_PARALLELISM - 1)
At = Callable[..., Any]
ErrorT = TypeVar("ErrorT", bound=Exception)
Epoch = list[tuple[StateSchema, pa.Table]]


class StateHarness:
    """One backend, and the log of the epochs that it sealed, or that a test wrote without the backend.

    Args:
        make: Creates an empty backend from (uid, codec, key groups, context, time).
        key: DDL of the key columns.
        epochs: The log so far, epoch by epoch; the backend is attached to it as after a restore.
        key_groups: The key groups of the backend.
        schemas: The schemas of the log, if they are not those of its rows.
        now: Processing time and watermark of the epoch that was sealed last.

    Attributes:
        time: The clocks, which a test may set.
    """

    def __init__(
        self,
        make: MakeBackend,
        key: str = "k string",
        epochs: Sequence[Epoch] = (),
        key_groups: KeyGroupRange = ALL_KEY_GROUPS,
        schemas: Sequence[StateSchema] = (),
        now: tuple[int, int] = (1_000, NO_WATERMARK),
    ) -> None:
        self._make = make
        self._key = key
        self._key_groups = key_groups
        self.codec = KeyCodec(parse_columns(key), MAX_PARALLELISM)
        self.context = KeyContext()
        self.time = OperatorTime(*now)
        self.backend = make(UID, self.codec, key_groups, self.context, self.time)
        self.epochs: list[Epoch] = list(epochs)
        self._sealed = now
        self._schemas = tuple(schemas) or tuple({s.name: s for epoch in self.epochs for s, _ in epoch}.values())
        self.backend.attach(self._schemas, self._load, OperatorTime(*now))

    def tables(self, schema: StateSchema) -> Iterator[pa.Table]:
        """Yields the log of one state, oldest epoch first."""
        for epoch in self.epochs:
            yield from (rows for logged, rows in epoch if logged.name == schema.name)

    def _load(self, schema: StateSchema) -> Iterator[pa.Table]:
        for number, epoch in enumerate(self.epochs, start=1):
            for logged, rows in epoch:
                if logged.name == schema.name and counts(schema, number):
                    positioned = rows if log.POSITION in rows.column_names else with_position(rows, number)
                    yield convert_rows(schema, positioned, number)

    def at(self, key: Any, namespace: str | None = None) -> None:
        """Sets the current key."""
        self.context.entry = key if namespace is None else Namespaced(key, namespace)

    def state(self, descriptor: StateDescriptor, key: Any = "a", namespace: str | None = None) -> Any:
        """Sets the current key, and returns the state."""
        self.at(key, namespace)
        return self.backend.state(descriptor)

    def seal(self, processing_time: int | None = None) -> dict[str, list[dict[str, Any]]]:
        """Ends an epoch, which is then sealed; returns its rows by state, as dicts."""
        return self.end(self.time.processing_time if processing_time is None else processing_time, self.backend.settle)

    def end(self, processing_time: int, then: Callable[[], None]) -> dict[str, list[dict[str, Any]]]:
        """Ends an epoch, adds its rows to the log, and calls `then`, which tells the backend the outcome."""
        self.time.processing_time = processing_time
        epoch = self.backend.freeze(processing_time)
        self._schemas = merge_schemas(self._schemas, self.backend.schemas, len(self.epochs))
        for schema, rows in epoch:
            groups: list[Any] = rows.column(log.KEY_GROUP).to_pylist()
            assert groups == sorted(groups), f"the changes of {schema.name!r} are not sorted by key group"
        self.epochs.append(epoch)
        self._sealed = processing_time, self.time.watermark
        then()
        self.backend.attach(self._schemas, self._load, OperatorTime(*self._sealed))
        return {schema.name: rows.to_pylist() for schema, rows in epoch}

    def reopened(self) -> "StateHarness":
        """Returns a harness with a new backend on the same log."""
        return StateHarness(self._make, self._key, self.epochs, self._key_groups, self._schemas, self._sealed)

    def schema(self, descriptor: StateDescriptor) -> StateSchema:
        """Returns the schema of a descriptor in the log."""
        return state_schema(UID, self.codec.columns, descriptor)

    def write_to_log(self, descriptor: StateDescriptor, changes: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Appends an epoch to the log without the backend: one mapping of columns per row, with at least `op`.

        The key group is computed unless it is given; `seq` counts from 0. Returns the rows.
        """
        schema = self.schema(descriptor)
        rows = [dict.fromkeys(log.log_schema(schema, ddl_to_arrow).names) | dict(change) for change in changes]
        for seq, row in enumerate(rows):
            row[log.SEQ] = seq
            if row[log.KEY_GROUP] is None:
                key = tuple(row[c.name] for c in schema.key)
                row[log.KEY_GROUP] = self.codec.key_group(key if len(key) > 1 else key[0])
        self._schemas = merge_schemas(self._schemas, [schema], len(self.epochs))
        table = pa.Table.from_pylist(rows, log.log_schema(schema, ddl_to_arrow))
        self.epochs.append([(schema, table)])
        return table

    def folded(self, descriptor: StateDescriptor) -> pa.Table:
        """Returns the full fold of a state's log at the last sealed epoch."""
        schema = next(schema for schema in self._schemas if schema.name == descriptor.name)
        empty = log.log_schema(schema, ddl_to_arrow, position=True).empty_table()
        return drop_expired(schema, fold(schema, [empty, *self._load(schema)]), *self._sealed)

    def everywhere(self, descriptor: StateDescriptor, check: Callable[[Callable[..., Any]], None]) -> None:
        """Checks a state in the epoch that wrote it, in the next one, and after a load from the log.

        `check` gets a function from (key, namespace) to the state, and must not write.
        """
        check(lambda *key: self.state(descriptor, *key))
        self.seal()
        check(lambda *key: self.state(descriptor, *key))
        assert self.seal() == {}, "reading was logged"
        reopened = self.reopened()
        check(lambda *key: reopened.state(descriptor, *key))


def refused(kind: type[ErrorT], text: str, call: Callable[[], object]) -> ErrorT:
    """Asserts that a call raises an error of this kind that mentions `text`, and returns it."""
    raised: BaseException | None = None
    try:
        call()
    except kind as error:
        raised = error
    assert isinstance(raised, kind), f"no {kind.__name__} was raised"
    assert text in str(raised), f"{text!r} is not in {str(raised)!r}"
    return raised


def same(found: Any, expected: Any) -> None:
    """Asserts that two values are equal and of one class."""
    assert found == expected, f"{found!r} is not {expected!r}"
    assert type(found) is type(expected), f"{type(found)} is not {type(expected)}"


__all__ = [
    "MAX_PARALLELISM",
    "UID",
    "At",
    "Epoch",
    "KeyedStateBackend",
    "MakeBackend",
    "StateHarness",
    "refused",
    "same",
]
