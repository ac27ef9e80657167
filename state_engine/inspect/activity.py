"""Recent activity of a job, and how its state is spread over key groups: cheap enough to read every second."""

from collections.abc import Sequence

import msgspec

from state_engine.inspect.status import JobStatus, status_of
from state_engine.inspect.view import JobView
from state_engine.log.manifest import StoredManifest

EPOCHS = 40


class OperatorActivity(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one operator: `records` per epoch, oldest first, and the rate over all but the newest epoch."""

    uid: str
    records: tuple[int, ...]
    records_per_s: float | None


class StateGroups(msgspec.Struct, frozen=True, kw_only=True):
    """How a state's log is spread over the key groups.

    `rows` has one number per key group; a number that is known only for several groups together is spread over them.
    `skew` is the largest of the numbers divided by their mean; None without rows.
    """

    uid: str
    state: str
    rows: tuple[float, ...]
    skew: float | None


class JobActivity(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epochs of a job's newest incarnation. `epochs_per_s` is None if there are fewer than two."""

    status: JobStatus
    epochs_per_s: float | None
    operators: tuple[OperatorActivity, ...]
    groups: tuple[StateGroups, ...]


def activity_of(view: JobView, epochs: int = EPOCHS) -> JobActivity:
    """Returns the activity of a job in its newest epochs; reads no more of its state than `JobView.key_groups` reads.

    Raises:
        NothingToRestoreError: The job never sealed an epoch.
        CorruptionError: A manifest or a base is gone or damaged.
    """
    status = status_of(view)
    sealed = _of_one_incarnation(view.epochs(epochs))[::-1]
    seconds = _seconds(sealed)
    return JobActivity(
        status=status,
        epochs_per_s=(len(sealed) - 1) / seconds if seconds else None,
        operators=tuple(_activity(one.uid, sealed, seconds) for one in status.operators),
        groups=tuple(_groups(*state) for state in view.key_groups()),
    )


def _of_one_incarnation(newest_first: Sequence[StoredManifest]) -> list[StoredManifest]:
    """Returns the epochs of the newest incarnation: the time between two incarnations must not count for the rate."""
    ours = [one for one in newest_first if one.manifest.incarnation == newest_first[0].manifest.incarnation]
    return [one for one in ours if one.manifest.kind in ("epoch", "idle")]


def _seconds(sealed: Sequence[StoredManifest]) -> float:
    return (sealed[-1].manifest.processing_time - sealed[0].manifest.processing_time) / 1000 if sealed else 0.0


def _activity(uid: str, sealed: Sequence[StoredManifest], seconds: float) -> OperatorActivity:
    operators = [one.manifest.operators.get(uid) for one in sealed]
    records = tuple(sum(ack.records_in for ack in one.acks) if one is not None else 0 for one in operators)
    # An epoch's processing time is that of its beginning: how long the newest one took is not known yet.
    return OperatorActivity(uid=uid, records=records, records_per_s=sum(records[:-1]) / seconds if seconds else None)


def _groups(uid: str, state: str, rows: Sequence[float]) -> StateGroups:
    total = sum(rows)
    return StateGroups(uid=uid, state=state, rows=tuple(rows), skew=max(rows) * len(rows) / total if total else None)


__all__ = ["EPOCHS", "JobActivity", "OperatorActivity", "StateGroups", "activity_of"]
