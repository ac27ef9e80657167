"""Inlines small change files in the manifest, so that an epoch costs no file beyond it (E1, E5, E6).

A task gets a budget with its plan. If its change file fits in the budget, the task hands over the bytes in its ack. The
manifest then holds the bytes under the path in the handle, and no file exists at that path.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from state_engine.epoch.ports import OperatorPlan
from state_engine.log.records import Ack

INLINED_PER_EPOCH = 128 * 1024
"""Bytes that all subtasks of an epoch may hand over together: each of them reads the manifest in the next epoch."""

Acks = dict[str, tuple[Ack, ...]]


def inline_budget(threshold: int, operators: Sequence[OperatorPlan]) -> int:
    """Returns the number of bytes that each subtask of an epoch may hand over: its share of what a manifest may hold.

    Args:
        threshold: The most that one subtask may hand over. If it is larger than `INLINED_PER_EPOCH`, it is also the
            limit for all subtasks together.
        operators: Of the epoch.
    """
    subtasks = sum(operator.parallelism for operator in operators)
    return min(threshold, max(threshold, INLINED_PER_EPOCH) // max(1, subtasks))


def take_inlined(acks: Mapping[str, tuple[Ack, ...]]) -> tuple[Acks, dict[str, bytes]]:
    """Returns the acks as a manifest records them, and the bytes that they carried, by path."""
    inlined = {
        ack.changes.path: ack.inlined
        for of_operator in acks.values()
        for ack in of_operator
        if ack.changes is not None and ack.inlined is not None
    }
    plain = {uid: tuple(replace(ack, inlined=None) for ack in of_operator) for uid, of_operator in acks.items()}
    return plain, inlined


__all__ = ["INLINED_PER_EPOCH", "inline_budget", "take_inlined"]
