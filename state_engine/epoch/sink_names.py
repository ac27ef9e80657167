"""Which table each sink of a job has written, and whether a start may go on with its sinks of today. Pure."""

from collections.abc import Sequence

from state_engine.errors import SinkError
from state_engine.log.records import Manifest, SinkTable


def table_of(manifest: Manifest, uid: str) -> SinkTable | None:
    """Returns where the output of this epoch for a sink goes; None if the release that sealed it did not record it."""
    return next((sink for sink in reversed(manifest.sinks) if sink.uid == uid), None)


def merged(known: Sequence[SinkTable], today: Sequence[SinkTable]) -> tuple[SinkTable, ...]:
    """Appends the sinks of today to those that the job had. None is removed: output of a former sink may come back."""
    return (*(sink for sink in known if not any(same(sink, other) for other in today)), *today)


def same(one: SinkTable, other: SinkTable) -> bool:
    """Returns whether two records are of one sink: uid, kind and place. Its options may change."""
    return (one.uid, one.kind, one.table) == (other.uid, other.kind, other.table)


def check_names(today: Sequence[SinkTable], known: Sequence[SinkTable]) -> None:
    """Refuses a table that the job has written under one uid and would go on to write under another one.

    Output in a table is found by the uid alone. So a restore would leave the old output in it, and the replay would add
    the same output again.

    Raises:
        SinkError: It names both uids.
    """
    for sink in today:
        if not sink.table or any(same(sink, before) for before in known):
            continue
        for before in known:
            if (before.kind, before.table) == (sink.kind, sink.table) and not any(same(before, one) for one in today):
                raise SinkError(
                    f"Sink {sink.uid!r} writes {described(sink)}, which the job has written as sink {before.uid!r} so "
                    "far: a restore would not find that output any more.",
                    action=f"Give the sink its name back with sink_to(..., uid={before.uid!r}), or start once with "
                    "keep_output=True: the output that was written under the old name then stays for good.",
                )


def moved(today: Sequence[SinkTable], before: Manifest) -> list[tuple[SinkTable, SinkTable]]:
    """Returns the sinks that write another table than before: pairs of the former sink and that of today."""
    pairs = [(table_of(before, sink.uid), sink) for sink in today]
    return [(former, sink) for former, sink in pairs if former is not None and not same(former, sink)]


def described(sink: SinkTable) -> str:
    """Returns what a sink is, for messages."""
    kinds = {
        "delta": f"the Delta table {sink.table}",
        "memory": f"the memory sink {sink.table!r}",
        "postgresql": f"the PostgreSQL table {sink.table}",
        "kafka": f"the Kafka topic {sink.table}",
        "custom": sink.table,
    }
    return kinds.get(sink.kind, "a function")


__all__ = ["check_names", "described", "merged", "moved", "same", "table_of"]
