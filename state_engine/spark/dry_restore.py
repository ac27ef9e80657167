"""The dry run of a restore, against the job as its author built it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from state_engine.epoch.request import OperatorShape
from state_engine.log.records import Manifest, SinkTable
from state_engine.savepoint.restore import JobRestore
from state_engine.savepoint.restore_report import WholeRestore
from state_engine.spark.sink_commits import SinkCommits
from state_engine.spark.startup import StartOptions, shapes_of
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage

if TYPE_CHECKING:
    from state_engine.spark.job import StreamJob


def plan_restore(job: "StreamJob", options: StartOptions) -> WholeRestore:
    """Returns what a start with these options would restore; the job is as it was afterwards."""
    before = job.max_parallelism

    def operators_of(source: Manifest) -> tuple[OperatorShape, ...]:
        if options.max_parallelism is not None:
            job.use_max_parallelism(options.max_parallelism)
        for operator in source.operators.values() if options.max_parallelism is None else ():
            job.adopt_max_parallelism(operator.max_parallelism)
        return shapes_of(job)

    def sinks_of(name: str, recorded: Sequence[SinkTable], storage: CheckpointStorage, log: ManifestLog) -> SinkCommits:
        return SinkCommits(name, job.operators, storage, log, lambda *_: None)

    assert options.restore is not None
    try:
        return JobRestore(
            job.root,
            job.name,
            options.restore,
            sinks_of,
            operators_of=operators_of,
            fingerprints=job.sources.fingerprints,
            parallelism=options.parallelism,
            max_parallelism=options.max_parallelism,
            uid_mapping=options.uid_mapping,
            allow_non_restored_state=options.allow_non_restored_state,
            resume_state=options.resume_state,
            discard_state=options.discard_state,
            keep_output=options.keep_output,
            adopt_sinks=options.adopt_sinks,
            allow_changed_sources=options.allow_changed_sources,
            strict=options.strict,
            claim_mode=options.claim_mode,
            cancelled=options.cancelled,
            progress=options.progress,
        ).plan()
    finally:
        job.max_parallelism = before


__all__ = ["plan_restore"]
