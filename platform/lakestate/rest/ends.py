"""How operations ended that a process was asked for, kept behind it: `<root>/<job>/_control/ends-<incarnation>.json`.

While the process lives its server tells this. Whoever did not wait for an end, such as that of the job itself, asks
when nobody answers any more. Those of the newest process are kept, and none older.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from lakestate.failure_facts import FailureFacts, facts_of
from lakestate.plain_json import encode_plain
from lakestate.rest.triggers import Ended, Kind
from state_engine.errors import AlreadyExistsError
from state_engine.storage.job_lock import CONTROL
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.text import UNDECODABLE

_PREFIX = f"{CONTROL}/ends-"


class EndedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an operation; time in ms.

    `result` is a savepoint's location, or a number: a checkpoint's id, or the epoch that has another parallelism.
    `error` and `message` say what it failed with instead, `action` what to do about it, `operator` and `key` where.
    """

    kind: Kind
    trigger_id: str
    ended_at: int
    result: str | int | None = None
    error: str | None = None
    message: str | None = None
    action: str | None = None
    operator: str | None = None
    key: str | None = None


def ended_operation(ended: Ended) -> EndedOperation:
    """Returns an end as it is kept."""
    key, outcome = ended.key, ended.outcome
    result = outcome.result if isinstance(outcome.result, str | int) else None
    failure = facts_of(outcome.error) if outcome.error is not None else None
    return ended_as(key.kind, key.trigger_id, ended.at_ms, result, failure)


def ended_as(
    kind: Kind, trigger_id: str, at_ms: int, result: str | int | None, failure: FailureFacts | None
) -> EndedOperation:
    """Returns an end by its result, or by its failure."""
    if failure is None:
        return EndedOperation(kind=kind, trigger_id=trigger_id, ended_at=at_ms, result=result)
    return EndedOperation(
        kind=kind,
        trigger_id=trigger_id,
        ended_at=at_ms,
        error=failure.type,
        message=failure.message,
        action=failure.action or None,
        operator=failure.operator or None,
        key=failure.key or None,
    )


def keep_ends(root: str, job: str, incarnation: str, ends: Sequence[Ended]) -> None:
    """Writes the ends of this process's operations, and removes those of earlier ones.

    Args:
        root: Of the storage.
        job: Name of the job.
        incarnation: Which one ends here.
        ends: What its operations came to.
    """
    storage = open_storage(root, job)
    path = f"{_PREFIX}{incarnation}.json"
    if ends:
        with suppress(AlreadyExistsError):
            storage.put_if_absent(path, encode_plain([ended_operation(one) for one in ends]))
    for kept in _documents(storage):
        if kept != path:
            storage.delete(kept)


def find_end(root: str, job: str, trigger_id: str) -> EndedOperation | None:
    """Returns how an operation of the process that ran the job last has ended; null if nothing is known of it."""
    storage = open_storage(root, job)
    for path in _documents(storage):
        with suppress(*UNDECODABLE):
            found = msgspec.json.decode(storage.get(path), type=list[EndedOperation])
            for one in found:
                if one.trigger_id == trigger_id:
                    return one
    return None


def has_ended(root: str, job: str, incarnation: str) -> bool:
    """Says whether it is known that an incarnation has ended: it left ends behind. One that did not may have, too."""
    return open_storage(root, job).exists(f"{_PREFIX}{incarnation}.json")


def _documents(storage: CheckpointStorage) -> list[str]:
    return [info.path for info in storage.list(CONTROL, recursive=False) if info.path.startswith(_PREFIX)]


__all__ = ["EndedOperation", "ended_as", "ended_operation", "find_end", "has_ended", "keep_ends"]
