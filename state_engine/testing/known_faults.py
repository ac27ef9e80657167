"""Faults of the engine that are known and not yet mended: the simulator does not play what shows them.

Each has a strict xfail test in `tests/epoch/test_known_faults.py`. Whoever mends one removes its entry and that mark.
"""

from typing import NamedTuple


class KnownFault(NamedTuple):
    """One fault.

    Attributes:
        name: What `--with` of a campaign calls it.
        fault: What happens.
        switched_off: What the simulator does not play.
    """

    name: str
    fault: str
    switched_off: str


KNOWN_FAULTS: tuple[KnownFault, ...] = (
    KnownFault(
        "rewind-race",
        "A restore computes which files to take away on one version of a sink's table and commits on a later one: a "
        "commit of the living driver in between stays, and its records come again.",
        "Nothing comes between the calls of `TableSink.rewind`.",
    ),
    KnownFault(
        "sink-ahead",
        "A job whose root was removed begins at generation 1, and its sinks ignore what they seem to have: rows are "
        "lost.",
        "The root is not removed (`wipe`).",
    ),
    KnownFault(
        "lease-outlived",
        "A restore that takes longer than its lease, or runs beside a clock that is an hour ahead, is sealed over "
        "files that retention has deleted.",
        "Time does not pass by an hour while a process stands still; no clock is off by more than ten minutes.",
    ),
    KnownFault(
        "sink-changed",
        "The owner of a sink's table changes it while the stream runs: only a start looks for columns and features "
        "that finished files do not fit.",
        "The table is not changed (`alter`).",
    ),
    KnownFault(
        "flipped-checkpoint-row",
        "A flipped bit in a row of `_checkpoints` is decoded to another row without an error.",
        "No bit of `_checkpoints` is flipped.",
    ),
)


__all__ = ["KNOWN_FAULTS", "KnownFault"]
