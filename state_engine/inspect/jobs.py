"""Lists the jobs under a root."""

import msgspec

from state_engine.epoch import look
from state_engine.errors import CorruptionError, JobDefinitionError
from state_engine.log.paths import EPOCHS
from state_engine.log.records import ManifestKind
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_root, open_storage
from state_engine.storage.port import check_name


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The newest sealed epoch of a job. `sealed_at` is its processing time, in ms; `incarnation` counts starts.

    If the newest manifest is damaged, `problem` describes that, and the other fields but `job` are None.
    """

    job: str
    generation: int | None = None
    epoch: int | None = None
    kind: ManifestKind | None = None
    sealed_at: int | None = None
    incarnation: int | None = None
    problem: str = ""


def list_jobs(root: str) -> list[JobSummary]:
    """Returns the jobs under a root that sealed an epoch, by name; one listing and one read for each of them.

    Raises:
        StorageError: The root cannot be listed.
    """
    summaries = []
    for name in open_root(root).folders(""):
        try:
            check_name("job name", name)
        except JobDefinitionError:
            continue
        summary = _summary(root, name)
        if summary is not None:
            summaries.append(summary)
    return summaries


def _summary(root: str, job: str) -> JobSummary | None:
    storage = open_storage(root, job)
    if not storage.folders(EPOCHS):
        return None
    try:
        head = look.newest(ManifestLog(storage, job))
    except CorruptionError as error:
        return JobSummary(job=job, problem=str(error))
    if head is None:
        return None
    manifest = head.manifest
    return JobSummary(
        job=job,
        generation=manifest.generation,
        epoch=manifest.epoch,
        kind=manifest.kind,
        sealed_at=manifest.processing_time,
        incarnation=manifest.incarnation_number,
    )


__all__ = ["JobSummary", "list_jobs"]
