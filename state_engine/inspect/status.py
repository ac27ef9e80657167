"""The status of a job at its newest sealed epoch, in one record."""

import msgspec

from state_engine.backends.time import MAX_WATERMARK, NO_WATERMARK
from state_engine.checkpoint.table import CheckpointRow
from state_engine.errors import NothingToRestoreError
from state_engine.inspect.view import JobView, StateSize
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import ManifestKind, SinkTable
from state_engine.savepoint.catalogue import read_catalogue


class OperatorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One operator at the newest epoch.

    `watermark` (ms) is None before the first one, and if `input_ended`. `event_time_lag_ms` is the epoch's processing
    time minus the watermark. `rescaled_from` is the parallelism of the job's definition, if the running job was
    rescaled to another. `records_in` and `records_out` are of the newest epoch.
    """

    uid: str
    parallelism: int
    max_parallelism: int
    rescaled_from: int | None
    watermark: int | None
    input_ended: bool
    event_time_lag_ms: int | None
    records_in: int
    records_out: int


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job at its newest sealed epoch. Times are milliseconds since the Unix epoch.

    `epochs_behind` is how many sealed epochs the newest checkpoint does not cover: all of them without a checkpoint.
    `damaged_savepoints` are not among the `savepoints`: their pins or metadata cannot be read.
    """

    job: str
    url: str
    generation: int
    epoch: int
    kind: ManifestKind
    sealed_at: int
    incarnation: str
    incarnation_number: int
    operators: tuple[OperatorStatus, ...]
    states: tuple[StateSize, ...]
    sinks: tuple[SinkTable, ...]
    checkpoint: CheckpointRow | None
    epochs_behind: int
    savepoints: int
    newest_savepoint: str | None
    damaged_savepoints: tuple[str, ...] = ()


def status_of(view: JobView) -> JobStatus:
    """Returns the status of a job; reads no state.

    Raises:
        NothingToRestoreError: The job never sealed an epoch.
        CorruptionError: A manifest or a base is gone or damaged.
    """
    head = view.newest()
    if head is None:
        raise NothingToRestoreError(
            f"Job {view.job!r} has no sealed epoch.",
            action="Check root and name of the job (`lakestate list`), or run it once.",
        )
    manifest = head.manifest
    checkpoint = view.newest_checkpoint()
    savepoints, damaged = read_catalogue(view.root, view.job)
    return JobStatus(
        job=view.job,
        url=view.url,
        generation=manifest.generation,
        epoch=manifest.epoch,
        kind=manifest.kind,
        sealed_at=manifest.processing_time,
        incarnation=manifest.incarnation,
        incarnation_number=manifest.incarnation_number,
        operators=operators_of(head),
        states=tuple(view.statistics()),
        sinks=manifest.sinks,
        checkpoint=checkpoint,
        epochs_behind=manifest.epoch - (checkpoint.epoch if checkpoint is not None else manifest.lineage[0].first - 1),
        savepoints=len(savepoints),
        newest_savepoint=savepoints[-1].savepoint_id if savepoints else None,
        damaged_savepoints=tuple(one.savepoint_id for one in damaged),
    )


def operators_of(head: StoredManifest) -> tuple[OperatorStatus, ...]:
    """Returns the operators of an epoch, in the manifest's order."""
    manifest = head.manifest
    statuses = []
    for uid, operator in manifest.operators.items():
        watermark = manifest.watermarks.get(uid, NO_WATERMARK)
        event_time = watermark if NO_WATERMARK < watermark < MAX_WATERMARK else None
        statuses.append(
            OperatorStatus(
                uid=uid,
                parallelism=operator.parallelism,
                max_parallelism=operator.max_parallelism,
                rescaled_from=operator.rescaled_from,
                watermark=event_time,
                input_ended=operator.finished or watermark == MAX_WATERMARK,
                event_time_lag_ms=manifest.processing_time - event_time if event_time is not None else None,
                records_in=sum(ack.records_in for ack in operator.acks),
                records_out=sum(ack.records_out for ack in operator.acks),
            )
        )
    return tuple(statuses)


__all__ = ["JobStatus", "OperatorStatus", "operators_of", "status_of"]
