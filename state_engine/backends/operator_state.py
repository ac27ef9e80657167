"""The operator states of one subtask: what `CheckpointedFunction` and broadcast functions hold.

Operator state is small, so it is loaded when an instance is made. It is made anew where keyed state catches up.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from state_engine.api.checkpointed import OperatorStateStore
from state_engine.api.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from state_engine.api.state import ListState
from state_engine.api.type_hints import parse_ddl
from state_engine.backends.broadcast import BroadcastMap
from state_engine.backends.operator_lists import OperatorList, Slot
from state_engine.backends.raw_state import RawState
from state_engine.backends.schemas import (
    RAW_KEYED,
    RAW_OPERATOR,
    broadcast_schema,
    check_names,
    check_same,
    operator_schema,
)
from state_engine.backends.stored_type import StateValueError
from state_engine.errors import DuplicateStateError, JobDefinitionError
from state_engine.log.evolution import evolve, reported
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.log.state_ttl import ALL

Rows = Callable[[StateSchema], Iterable[pa.Table]]
Changes = list[tuple[StateSchema, pa.Table]]
_BYTES_PER_ROW = 200  # what an ordinary row takes in a worker's memory


class OperatorStateBackend(OperatorStateStore):
    """All operator states of one subtask.

    Args:
        uid: The operator.
        subtask: Its number.
        parallelism: The operator's parallelism.

    Attributes:
        raw: What its function writes as bytes: of the subtask as a whole, and by key group.
    """

    def __init__(self, uid: str, subtask: int, parallelism: int) -> None:
        self.uid = uid
        self._own = Slot(parallelism, subtask)
        self.raw = RawState(uid, self._own)
        self._lists: dict[str, OperatorList] = {}
        self._maps: dict[str, BroadcastMap] = {}
        self._restored: dict[str, StateSchema] = {}
        self._load: Rows = lambda _: ()
        self._left_over: set[str] | None = None
        self._has_raw = False

    def attach(self, restored: Iterable[StateSchema], load: Rows) -> None:
        """Passes what the log has as of the epoch's predecessor. The first call comes before any state is requested.

        Args:
            restored: Schemas that the log contains.
            load: Returns the rows of one state, oldest first: the rows of all subtasks, or for keyed state (such as raw
                keyed state) those of the subtask's own key groups.
        """
        schemas = {s.name: s for s in restored if s.uid == self.uid}
        raw = schemas.keys() & {RAW_KEYED, RAW_OPERATOR}
        self._restored = {n: s for n, s in schemas.items() if s.kind in ("operator", "broadcast") and n not in raw}
        self._load = load
        self._has_raw = bool(raw)
        self.raw.attach(raw, load)
        if self._left_over is None:
            self._left_over = {s.name for s in self._restored.values() if s.kind == "operator"}

    @property
    def holds_state(self) -> bool:
        """Whether the operator has any operator state, requested or left in the log."""
        return bool(self._restored or self._lists or self._maps or self._has_raw or self.raw.schemas)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, union=False)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._list(state_descriptor, union=True)

    def _list(self, descriptor: ListStateDescriptor, *, union: bool) -> OperatorList:
        if not isinstance(descriptor, ListStateDescriptor):
            raise JobDefinitionError(
                f"Operator {self.uid!r} asked for an operator list state with {descriptor!r}.",
                action="Give a ListStateDescriptor.",
            )
        _refuse_ttl(self.uid, descriptor)
        schema = operator_schema(self.uid, descriptor)
        state = self._lists.get(descriptor.name)
        if state is None:
            restored = self._restored_as(schema)
            state = OperatorList(schema, descriptor.type_info, self._own, union=union)
            if restored is not None:
                state.load(self._load(evolve(restored, schema, ALL)))
            if self._left_over:
                self._left_over.discard(descriptor.name)
            self._lists[descriptor.name] = state
        elif state.schema.schema_id != schema.schema_id or state.union != union:
            raise DuplicateStateError(
                f"Operator {self.uid!r} uses the operator state name {descriptor.name!r} with two types, or as a list "
                "and as a union list.",
                action="Give the two states two names.",
            )
        return state

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastMap:
        if not isinstance(state_descriptor, MapStateDescriptor):
            raise JobDefinitionError(
                f"Operator {self.uid!r} asked for a broadcast state with {state_descriptor!r}.",
                action="Give a MapStateDescriptor.",
            )
        state = self._maps.get(state_descriptor.name)
        if state is not None and state.descriptor is state_descriptor:
            return state  # functions call this for every element
        _refuse_ttl(self.uid, state_descriptor)
        schema = broadcast_schema(self.uid, state_descriptor)
        if state is None:
            restored = self._restored_as(schema)
            state = BroadcastMap(schema, state_descriptor, logged=self._own.subtask == 0)
            if restored is not None:
                state.load(self._load(evolve(restored, schema, ALL)))
            self._maps[state_descriptor.name] = state
        check_same(state.schema, schema)
        return state

    def _restored_as(self, schema: StateSchema) -> StateSchema | None:
        restored = self._restored.get(schema.name)
        if restored is not None:
            check_names((restored, schema))
        return restored

    def digests(self) -> dict[str, str]:
        """Returns a digest of what the epoch changed, by the name of the broadcast state that was changed."""
        return {name: held.digest for name, held in self._maps.items() if held.digest}

    @property
    def rows(self) -> int:
        """Number of the subtask's own sealed elements, over all states; raw partitions count 1 per `_BYTES_PER_ROW`."""
        return sum(held.rows for held in self._states()) + self.raw.bytes_held // _BYTES_PER_ROW

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the requested states."""
        managed = (reported(held.schema, self._restored.get(held.schema.name)) for held in self._states())
        return (*managed, *self.raw.schemas)

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of the subtask's own lists as they are sealed; in subtask 0 also those of the broadcast states."""
        logged = [held for held in self._states() if isinstance(held, OperatorList) or self._own.subtask == 0]
        managed = (StateStatistics(name=one.schema.name, rows=one.rows, keys=min(one.rows, 1)) for one in logged)
        return (*managed, *self.raw.statistics())

    def _states(self) -> list[OperatorList | BroadcastMap]:
        return [*self._lists.values(), *self._maps.values()]

    def freeze(self, processing_time: int, seq: int) -> Changes:
        """Turns the epoch's changes into rows of the log, and keeps them pending.

        Lists of another parallelism that the function did not request are cut anew as well. Raw state that was not
        written to `raw` is removed.

        Args:
            processing_time: The epoch's, in ms.
            seq: Number of the first row; the numbers go on through all states of a subtask.

        Raises:
            StateValueError: A value does not fit its state's type.
        """
        changes: Changes = []
        lists = [*self._lists.values(), *self._take_left_over()]
        states: list[OperatorList | BroadcastMap] = [*lists, *self._maps.values()]
        for held in states:
            try:
                rows = held.freeze(processing_time, seq)
            except StateValueError as error:
                error.add_note(f"{held.schema.kind} state {held.schema.name!r}")
                raise
            if rows is not None:
                changes.append((held.schema, rows))
                seq += rows.num_rows
        return [*changes, *self.raw.freeze(processing_time, seq)]

    def _take_left_over(self) -> list[OperatorList]:
        names, self._left_over = sorted(self._left_over or ()), set()
        lists = []
        for schema in map(self._restored.__getitem__, names):
            held = OperatorList(schema, parse_ddl(schema.value), self._own, union=False)
            held.load(self._load(schema))
            lists.append(held)
        return lists

    def settle(self) -> None:
        """Applies the pending changes, which were sealed."""
        for held in self._lists.values():
            held.settle()
        self.raw.settle()

    def follow(self, read: Rows) -> None:
        """Applies to union lists what the other subtasks changed in a sealed epoch.

        Args:
            read: Returns the rows of one state in that epoch.
        """
        for held in self._lists.values():
            if held.union:
                for rows in read(held.schema):
                    held.follow(rows)


def _refuse_ttl(uid: str, descriptor: StateDescriptor) -> None:
    if descriptor.ttl_config is not None:
        raise JobDefinitionError(
            f"The operator state {descriptor.name!r} of operator {uid!r} has a time to live.",
            action="Only values of keyed state expire; store the time with the element, and drop it yourself.",
        )


__all__ = ["OperatorStateBackend"]
