"""Lists every place at which a crash may cut off the protocol, numbered as in `docs/protocol.md`.

Production code announces each place through the `Crash` port. The port decides what happens there: nothing
(`NoCrash`), a SIGKILL (`spark/worker/kill_at.py`) or an exception (the simulator). Between two neighbouring points at
most one durable effect happens. So a test that walks the enum covers every state that a crash can leave.
"""

from enum import Enum, unique
from typing import Literal

Where = Literal["driver", "task", "publisher"]


@unique
class CrashPoint(Enum):
    """One named place, in the order of the protocol.

    Attributes:
        where: The process that passes the place: the driver, a task in a Python worker, or the publisher.
        meaning: What has happened, and what has not.
    """

    S1_HEAD_FOUND = ("driver", "the newest sealed epoch is known; nothing was written")
    S2_BEFORE_CLOSING = ("driver", "a new generation is wanted; the old one is still open")
    S2_CLOSED = ("driver", "the closing manifest is sealed; sinks still hold what was abandoned")
    S3_REWOUND = ("driver", "sinks are back at the target; the new generation has no manifest yet")
    S2_BEFORE_CLAIM = ("driver", "the claim (or the first manifest of a generation) is ready; not put")
    S2_CLAIMED = ("driver", "this incarnation owns the generation; debts of its predecessors are open")
    S3_SINKS_COMMITTED = ("driver", "the chain owes no sink commit; a publish may be owed")
    S3_PUBLISHED = ("driver", "the chain owes nothing")
    S4_SEEDED = ("driver", "a fresh Spark directory holds the source positions; no query runs")
    S5_STARTED = ("driver", "the query runs; no epoch was planned")
    E1_PLANNED = ("driver", "number, processing time and parallelism of the epoch are fixed in memory")
    E2_ROUTED = ("task", "the subtask has its number and its records; the backend is untouched")
    E3_CAUGHT_UP = ("task", "the backend reflects the predecessor manifest")
    E4_OPERATED = ("task", "the operator has run; its changes are in memory only")
    E5_BEFORE_CHANGE_FILE = ("task", "the overlay is frozen; no file was written")
    E5_CHANGE_FILE_WRITTEN = (
        "task",
        "the change file is durable under a unique name, or its few bytes are in memory for the ack; "
        "only the task knows it",
    )
    E5_OUTPUT_STAGED = ("task", "the staged output is durable too; only the task knows it")
    E5_ACKED = ("task", "the barrier with the ack was handed to the engine")
    E6_ACKS_HELD = ("driver", "one consistent set of acks is held in memory")
    E6_BEFORE_PUT = ("driver", "the manifest is encoded; not put")
    E6_SEALED = ("driver", "the epoch is sealed; no sink has its output")
    E7_BEFORE_SINK_COMMIT = ("driver", "the sealed output is about to be committed")
    E7_SINK_COMMITTED = ("driver", "one sink has committed; others may not have (passed once per sink)")
    E7_COMMITTED = ("driver", "all sinks have committed")
    E9_PUBLISH_BEGUN = ("publisher", "the epoch's checkpoint is wanted; no file was written")
    E9_FILES_WRITTEN = ("publisher", "the folded files are durable; no table names them")
    E9_TABLE_COMMITTED = ("publisher", "one state table has its new version (passed once per table)")
    E9_BASE_WRITTEN = ("publisher", "the base is durable; no row of _checkpoints names it")
    E9_VISIBLE = ("publisher", "the row is in _checkpoints; no manifest has adopted the base")
    E8_BEFORE_RETURN = ("driver", "the epoch is complete; Spark has not committed its batch")

    def __init__(self, where: Where, meaning: str) -> None:
        self.where: Where = where
        self.meaning = meaning

    def __str__(self) -> str:
        return self.name


class NoCrash:
    """The `Crash` port for production: does nothing at any place."""

    def at(self, point: CrashPoint, epoch: int) -> None:
        pass


__all__ = ["CrashPoint", "NoCrash", "Where"]
