"""The bytes of manifests that record the event times of operators, or their windows.

Run as a program, this file writes new ones.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from state_engine.log.manifest import decode_manifest, encode_manifest
from state_engine.log.records import EarliestTimers, HighestTime, Manifest, OperatorEpoch, Span
from state_engine.log.window_records import WindowsShape

GOLDEN = Path(__file__).parent / "golden"
AT = 1_700_000_000_000


def _timed() -> Manifest:
    """A manifest of the releases before the partition column was recorded."""
    return Manifest(
        job="flights",
        generation=1,
        epoch=7,
        kind="epoch",
        incarnation="5e" * 16,
        incarnation_number=1,
        predecessor="cd" * 32,
        processing_time=AT + 2,
        lineage=(Span(generation=1, first=1),),
        watermarks={"delays": AT - 1},
        operators={"delays": OperatorEpoch(parallelism=2, max_parallelism=128, since=2)},
        event_times={
            "delays": (
                HighestTime(edge=0, time=AT + 50, active_at=AT + 2),
                HighestTime(edge=1, partition="ü", time=AT, active_at=AT - 70),
            )
        },
        timers={"delays": EarliestTimers(event_time=AT + 99)},
    )


def _told_by_column() -> Manifest:
    operator = replace(_timed().operators["delays"], partition_columns=("", "region"))
    return replace(_timed(), operators={"delays": operator})


def _with_windows() -> Manifest:
    shape = WindowsShape(kind="sessions", event_time=True, trigger="CountTrigger", evicting=True)
    return replace(_timed(), operators={"delays": replace(_timed().operators["delays"], windows=shape)})


MADE = {"event_times.json": _timed, "partition_columns.json": _told_by_column, "windows.json": _with_windows}


@pytest.mark.parametrize("name", MADE)
def test_the_same_manifest_has_the_same_bytes(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    assert encode_manifest(MADE[name]())[0] == data
    assert decode_manifest(data).manifest == MADE[name]()


if __name__ == "__main__":
    for name, made in MADE.items():
        (GOLDEN / name).write_bytes(encode_manifest(made())[0])
