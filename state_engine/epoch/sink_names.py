"""Which table each sink of a job has written, and whether a start may go on with its sinks of today. Pure."""

from collections.abc import Sequence

from state_engine.errors import SinkError
from state_engine.log.records import Manifest, SinkTable


def table_of(manifest: Manifest, uid: str) -> SinkTable | None:
    """Returns where the output of this epoch for a sink goes, None if the release that sealed it did not say."""
    return next((sink for sink in reversed(manifest.sinks) if sink.uid == uid), None)


def merged(known: Sequence[SinkTable], today: Sequence[SinkTable]) -> tuple[SinkTable, ...]:
    """Adds the sinks of today behind those that the job had. Nothing is forgotten: output of theirs may come back."""
    return (*(sink for sink in known if sink not in today), *today)


def check_names(today: Sequence[SinkTable], known: Sequence[SinkTable]) -> None:
    """A table that the job has written under one uid may not go on under another one.

    What it holds is found under the uid alone: a restore would leave it there, and the replay would come on top.

    Raises:
        SinkError: It names both uids.
    """
    for sink in today:
        if not sink.table or sink in known:
            continue
        for before in known:
            if (before.kind, before.table) == (sink.kind, sink.table) and before not in today:
                raise SinkError(
                    f"Sink {sink.uid!r} writes {described(sink)}, which the job has written as sink {before.uid!r} so "
                    "far: a restore would not find that output any more.",
                    action=f"Give the sink its name back with sink_to(..., uid={before.uid!r}), or start once with "
                    "keep_output=True: what was written under the old name then stays for good.",
                )


def moved(today: Sequence[SinkTable], before: Manifest) -> list[tuple[SinkTable, SinkTable]]:
    """Returns the sinks that write another table than so far: that of before, and that of today."""
    pairs = [(table_of(before, sink.uid), sink) for sink in today]
    return [(was, sink) for was, sink in pairs if was is not None and was != sink]


def described(sink: SinkTable) -> str:
    """Returns what a sink is, for messages."""
    kinds = {"delta": f"the Delta table {sink.table}", "memory": f"the memory sink {sink.table!r}"}
    return kinds.get(sink.kind, "a function")


__all__ = ["check_names", "described", "merged", "moved", "table_of"]
