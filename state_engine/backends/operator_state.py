"""The operator states of one subtask: what `CheckpointedFunction` and broadcast functions hold.

It is small, so it is loaded when an instance is made, and made anew where keyed state is caught up.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from state_engine.api.checkpointed import OperatorStateStore
from state_engine.api.descriptors import ListStateDescriptor
from state_engine.api.state import ListState
from state_engine.api.type_hints import parse_ddl
from state_engine.backends.operator_lists import OperatorList, Slot
from state_engine.backends.schemas import operator_schema
from state_engine.backends.tables import StateValueError
from state_engine.errors import DuplicateStateError, JobDefinitionError
from state_engine.log.evolution import evolve
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.log.state_ttl import ALL

Rows = Callable[[StateSchema], Iterable[pa.Table]]
Changes = list[tuple[StateSchema, pa.Table]]


class OperatorStateBackend(OperatorStateStore):
    """All operator states of one subtask.

    Args:
        uid: The operator.
        subtask: Its number.
        parallelism: The operator's parallelism.
    """

    def __init__(self, uid: str, subtask: int, parallelism: int) -> None:
        self.uid = uid
        self._own = Slot(parallelism, subtask)
        self._lists: dict[str, OperatorList] = {}
        self._restored: dict[str, StateSchema] = {}
        self._load: Rows = lambda _: ()
        self._left_over: set[str] | None = None

    def attach(self, restored: Iterable[StateSchema], load: Rows) -> None:
        """Says what the log has as of the epoch's predecessor; first before anybody asks for a state.

        Args:
            restored: Schemas that the log knows.
            load: Gives all rows of one state, of all subtasks, oldest first.
        """
        self._restored = {s.name: s for s in restored if s.uid == self.uid and s.kind == "operator"}
        self._load = load
        if self._left_over is None:
            self._left_over = set(self._restored)

    @property
    def holds_state(self) -> bool:
        """Whether there is any operator state, asked for or left in the log."""
        return bool(self._restored or self._lists)

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
        if descriptor.ttl_config is not None:
            raise JobDefinitionError(
                f"The operator state {descriptor.name!r} of operator {self.uid!r} has a time to live.",
                action="Only values of keyed state expire; store the time with the element, and drop it yourself.",
            )
        schema = operator_schema(self.uid, descriptor)
        known = self._lists.get(descriptor.name)
        if known is None:
            restored = self._restored.get(descriptor.name)
            known = OperatorList(schema, descriptor.type_info, self._own, union=union)
            if restored is not None:
                known.load(self._load(evolve(restored, schema, ALL)))
            if self._left_over:
                self._left_over.discard(descriptor.name)
            self._lists[descriptor.name] = known
        elif known.schema.schema_id != schema.schema_id or known.union != union:
            raise DuplicateStateError(
                f"Operator {self.uid!r} uses the operator state name {descriptor.name!r} with two types, or as a list "
                "and as a union list.",
                action="Give the two states two names.",
            )
        return known

    @property
    def rows(self) -> int:
        """Sealed elements of the subtask's own, over all states."""
        return sum(held.rows for held in self._lists.values())

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of the states that were asked for."""
        return tuple(held.schema for held in self._lists.values())

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of the subtask's own lists as they are sealed."""
        return tuple(
            StateStatistics(name=name, rows=held.rows, keys=min(held.rows, 1)) for name, held in self._lists.items()
        )

    def freeze(self, processing_time: int, seq: int) -> Changes:
        """Turns the epoch's changes into rows of the log, and keeps them pending.

        Lists of another parallelism that nobody asked for are cut anew as well.

        Args:
            processing_time: The epoch's, in ms.
            seq: Number of the first row; those of all states of a subtask are counted on.

        Raises:
            StateValueError: A value does not fit its state's type.
        """
        changes: Changes = []
        for held in [*self._lists.values(), *self._take_left_over()]:
            try:
                rows = held.freeze(processing_time, seq)
            except StateValueError as error:
                error.add_note(f"operator state {held.schema.name!r}")
                raise
            if rows is not None:
                changes.append((held.schema, rows))
                seq += rows.num_rows
        return changes

    def _take_left_over(self) -> list[OperatorList]:
        names, self._left_over = sorted(self._left_over or ()), set()
        found = []
        for schema in map(self._restored.__getitem__, names):
            held = OperatorList(schema, parse_ddl(schema.value), self._own, union=False)
            held.load(self._load(schema))
            found.append(held)
        return found

    def settle(self) -> None:
        """The changes that are pending were sealed."""
        for held in self._lists.values():
            held.settle()

    def follow(self, read: Rows) -> None:
        """Takes from a sealed epoch what the other subtasks changed, where they are seen.

        Args:
            read: Gives the rows of one state in that epoch.
        """
        for held in self._lists.values():
            if held.union:
                for rows in read(held.schema):
                    held.follow(rows)


__all__ = ["OperatorStateBackend"]
