"""Small change files that lie in their manifest, so that an epoch costs no file beyond it (E1, E5, E6).

A task gets a budget with its plan, and hands over within its ack what stays below it; the manifest then holds the
bytes under the name that the handle says, and no file lies there.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from state_engine.epoch.ports import OperatorPlan
from state_engine.log.records import Ack

INLINED_PER_EPOCH = 128 * 1024
"""What all subtasks of an epoch may hand over together, in bytes: each of them reads the manifest in the next one."""

Acks = dict[str, tuple[Ack, ...]]


def inline_budget(threshold: int, operators: Sequence[OperatorPlan]) -> int:
    """Returns how many bytes each subtask of an epoch may hand over: its share of what a manifest may hold.

    Args:
        threshold: What one subtask may hand over at most; a larger one than `INLINED_PER_EPOCH` holds for all together.
        operators: Of the epoch.
    """
    subtasks = sum(operator.parallelism for operator in operators)
    return min(threshold, max(threshold, INLINED_PER_EPOCH) // max(1, subtasks))


def take_inlined(acks: Mapping[str, tuple[Ack, ...]]) -> tuple[Acks, dict[str, bytes]]:
    """Returns the acks as a manifest has them, and the bytes that they brought, by path."""
    found = {
        ack.changes.path: ack.inlined
        for of_operator in acks.values()
        for ack in of_operator
        if ack.changes is not None and ack.inlined is not None
    }
    plain = {uid: tuple(replace(ack, inlined=None) for ack in of_operator) for uid, of_operator in acks.items()}
    return plain, found


__all__ = ["INLINED_PER_EPOCH", "inline_budget", "take_inlined"]
