"""Finds the state in the log that a job's code will not read, so that no values are lost unnoticed. Pure.

A start goes on without these values. A state that no operator asks for stays in the log as it is. A field that the type
no longer has goes with the first epoch that writes its value again.
"""

from collections.abc import Iterator, Sequence

import msgspec

from state_engine.backends.schemas import RAW_KEYED, RAW_OPERATOR
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.errors import UnreadStateError
from state_engine.log.evolution import dropped_fields
from state_engine.log.records import Manifest, StateKind, StateSchema

_RAW = (RAW_KEYED, RAW_OPERATOR)


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A state, or fields of it, that today's code does not read.

    Attributes:
        uid: Its operator.
        state: Its name.
        kind: Its kind.
        fields: Paths of the fields that are not read; empty if nothing of the state is.
        before: Whether the release that sealed the epoch did not read it either.
        rows: The number of its rows in the log, not all of them need be live; None if they were not counted.
        bytes: The bytes of these rows.
    """

    uid: str
    state: str
    kind: StateKind
    fields: tuple[str, ...] = ()
    before: bool = False
    rows: int | None = None
    bytes: int | None = None

    def __str__(self) -> str:
        """Names it; if its size is known, also the size, and what becomes of it."""
        state = f"state {self.state!r} of operator {self.uid!r}"
        what = f"{', '.join(self.fields)} of {state}" if self.fields else state
        if self.rows is None:
            return what
        fate = "which no operator asks for in open(): it stays in the log"
        if self.fields:
            fate = "which its type does not have: gone with the next write of each value"
        return f"{what} ({self.rows} rows, {self.bytes} bytes), {fate}"


def unread(operators: Sequence[OperatorShape], target: Manifest) -> tuple[Unread, ...]:
    """Returns the state at an epoch that the operators will not read.

    An operator has the states that it asks for in `open()`. If it could not be opened, or has windows, in which
    triggers ask later, only changed types are known. Timers and raw state belong to each operator.

    Args:
        operators: As the job declares them.
        target: The epoch.
    """
    shapes = {shape.uid: shape for shape in operators}
    return tuple(_unread(shapes, target))


def check_unread(request: StartRequest, target: Manifest) -> None:
    """Refuses a `strict` start if the log has state that the code does not read.

    Raises:
        UnreadStateError: It names every state and field that the code does not read.
    """
    if not request.strict:
        return
    if not_read := unread(request.operators, target):
        raise UnreadStateError(
            f"The code of job {request.job!r} does not read all that epoch {target.epoch} of job {target.job!r} holds: "
            f"{'; '.join(map(str, not_read))}.",
            action="Give states and fields their former names back, or declare a field's former name: with_alias() of "
            "the descriptor (docs/schema-evolution.md). Or start without strict, which leaves them.",
        )


def _unread(shapes: dict[str, OperatorShape], target: Manifest) -> Iterator[Unread]:
    for schema in target.schemas:
        operator = target.operators.get(schema.uid)
        if schema.kind == "timer" or schema.name in _RAW or (operator is not None and operator.unwritten):
            continue
        shape = shapes.get(schema.uid)
        schema_now = _declared(shape, schema) if shape is not None else None
        if schema_now is not None:
            if fields := dropped_fields(schema, schema_now):
                yield Unread(uid=schema.uid, state=schema.name, kind=schema.kind, fields=fields)
        elif shape is None or shape.all_known:
            before = _was_unread(schema, target)
            yield Unread(uid=schema.uid, state=schema.name, kind=schema.kind, before=before)


def _declared(shape: OperatorShape, schema: StateSchema) -> StateSchema | None:
    return next((one for one in shape.schemas if (one.kind, one.name) == (schema.kind, schema.name)), None)


def _was_unread(schema: StateSchema, target: Manifest) -> bool:
    """Whether the tasks of an epoch did not ask for a state; False where an epoch had no tasks."""
    operator = target.operators.get(schema.uid)
    if operator is None or operator.left_at is not None:
        return True
    acks = operator.acks
    return bool(acks) and not any((one.kind, one.name) == (schema.kind, schema.name) for a in acks for one in a.schemas)


__all__ = ["Unread", "check_unread", "unread"]
