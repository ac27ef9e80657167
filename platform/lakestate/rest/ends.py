"""Stores results of operations beyond the end of their process: `<root>/<job>/_control/ends-<incarnation>.json`.

While the process lives, its server returns them. A client that did not wait for a result, such as that of a stop, can
read it when the server does not answer any more. Only the results of the newest process are kept.
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
    """The result of an operation that has ended; time in ms.

    `result` is a savepoint's location, or a number: a checkpoint's id, or the first epoch with the new parallelism. If
    it failed, `error` and `message` say why, `action` what to do about it, `operator` and `key` where.
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
    """Converts the end of an operation to its stored form."""
    key, outcome = ended.key, ended.outcome
    result = outcome.result if isinstance(outcome.result, str | int) else None
    failure = facts_of(outcome.error) if outcome.error is not None else None
    return ended_as(key.kind, key.trigger_id, ended.at_ms, result, failure)


def ended_as(
    kind: Kind, trigger_id: str, at_ms: int, result: str | int | None, failure: FailureFacts | None
) -> EndedOperation:
    """Returns the end of an operation, with its result or with its failure."""
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
    """Writes the results of this process's operations, and removes those of earlier processes.

    Args:
        root: Of the storage.
        job: Name of the job.
        incarnation: The incarnation that ends here.
        ends: The results of its operations.
    """
    storage = open_storage(root, job)
    path = f"{_PREFIX}{incarnation}.json"
    if ends:
        with suppress(AlreadyExistsError):
            storage.put_if_absent(path, encode_plain([ended_operation(one) for one in ends]))
    for document in _documents(storage):
        if document != path:
            storage.delete(document)


def find_end(root: str, job: str, trigger_id: str) -> EndedOperation | None:
    """Returns how an operation of the job's last process has ended; null if it is not known."""
    storage = open_storage(root, job)
    for path in _documents(storage):
        with suppress(*UNDECODABLE):
            ends = msgspec.json.decode(storage.get(path), type=list[EndedOperation])
            for one in ends:
                if one.trigger_id == trigger_id:
                    return one
    return None


def has_ended(root: str, job: str, incarnation: str) -> bool:
    """Returns whether an incarnation has stored its results, so has ended. One without them may have ended too."""
    return open_storage(root, job).exists(f"{_PREFIX}{incarnation}.json")


def _documents(storage: CheckpointStorage) -> list[str]:
    return [info.path for info in storage.list(CONTROL, recursive=False) if info.path.startswith(_PREFIX)]


__all__ = ["EndedOperation", "ended_as", "ended_operation", "find_end", "has_ended", "keep_ends"]
