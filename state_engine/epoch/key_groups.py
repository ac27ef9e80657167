"""Makes the manifest that restores the state of key groups from another epoch. Pure.

Such a manifest brings rows and nothing else: no input is read, no function runs, nothing goes to a sink, watermarks and
source positions stay. For a reader that follows the log it is an epoch like any other.
"""

import msgspec
from msgspec.structs import replace

from state_engine.epoch import carry
from state_engine.epoch.compatibility import merge_schemas
from state_engine.epoch.watermarks import NO_TIMERS
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Ack, EarliestTimers, GroupRestore, Manifest, StateSchema


class RestoredRows(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore of key groups has written, before a manifest names it.

    Args:
        acks: By operator, in order of subtask; their change files are durable.
        schemas: The states in these files.
        timers: When the earliest of the restored timers of an operator are due.
        record: What the manifest records about the restore.
    """

    acks: dict[str, tuple[Ack, ...]]
    schemas: tuple[StateSchema, ...]
    timers: dict[str, EarliestTimers]
    record: GroupRestore


def restored_groups(
    head: StoredManifest, rows: RestoredRows, *, incarnation: str, number: int, now_ms: int
) -> Manifest:
    """Returns the manifest after `head` that brings the rows.

    An operator's timers are due at the earlier of two times: the one known so far, and the earliest restored one. The
    timer of the known time may have gone with its key group; that costs one unnecessary epoch.
    """
    manifest = carry.carried(head, "restore", incarnation=incarnation, number=number, now_ms=now_ms)
    operators = {
        uid: replace(operator, acks=acks, since=operator.since or manifest.epoch, unwritten=False)
        for uid, acks in rows.acks.items()
        for operator in (manifest.operators[uid],)
    }
    timers = {
        uid: _earlier(manifest.timers.get(uid, NO_TIMERS), restored_timers)
        for uid, restored_timers in rows.timers.items()
    }
    return replace(
        manifest,
        operators=manifest.operators | operators,
        schemas=merge_schemas(manifest.schemas, rows.schemas, head.manifest.epoch),
        timers={uid: due for uid, due in {**manifest.timers, **timers}.items() if due != NO_TIMERS},
        restored=rows.record,
    )


def _earlier(one: EarliestTimers, other: EarliestTimers) -> EarliestTimers:
    return EarliestTimers(
        event_time=_least(one.event_time, other.event_time),
        processing_time=_least(one.processing_time, other.processing_time),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)


__all__ = ["RestoredRows", "restored_groups"]
