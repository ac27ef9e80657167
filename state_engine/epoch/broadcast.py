"""Checks that every subtask has changed its copies of the broadcast states in the same way (E6)."""

from collections.abc import Mapping, Sequence

from state_engine.errors import BroadcastDivergenceError
from state_engine.log.records import Ack


def check_broadcast(acks: Mapping[str, Sequence[Ack]], epoch: int) -> None:
    """Compares the digests in the acks of each operator.

    Raises:
        BroadcastDivergenceError: They differ; it names the operator, the state, and who agrees with whom.
    """
    for uid, of_operator in acks.items():
        for state in sorted({name for ack in of_operator for name in ack.broadcast}):
            agreeing: dict[str, list[str]] = {}
            for ack in of_operator:
                agreeing.setdefault(ack.broadcast.get(state, ""), []).append(str(ack.subtask))
            if len(agreeing) > 1:
                sides = " against ".join(f"subtask {', '.join(subtasks)}" for subtasks in agreeing.values())
                raise BroadcastDivergenceError(
                    f"In epoch {epoch} the subtasks of operator {uid!r} changed the broadcast state {state!r} in "
                    f"different ways: {sides}.",
                    action="Let process_broadcast_element depend only on the element and on broadcast state: not "
                    "on the subtask, fields, chance, or the order of a set. The epoch was not sealed.",
                )


__all__ = ["check_broadcast"]
