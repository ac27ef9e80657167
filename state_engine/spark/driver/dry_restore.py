"""The dry run of a restore, against the job as its author built it."""

from collections.abc import Sequence

from state_engine.epoch.request import OperatorShape
from state_engine.log.records import Manifest, SinkTable
from state_engine.savepoint.restore import JobRestore
from state_engine.savepoint.restore_report import WholeRestore
from state_engine.spark.driver.startup import StartOptions, as_logged, shapes_of
from state_engine.spark.graph.definition import JobDefinition
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage


def plan_restore(job: JobDefinition, options: StartOptions) -> WholeRestore:
    """Returns what a start with these options would restore."""

    def operators_of(source: Manifest) -> tuple[OperatorShape, ...]:
        wanted, settings = options.max_parallelism, job.settings
        return shapes_of(as_logged(settings, source) if wanted is None else settings.rekeyed(wanted), job.operators)

    def sinks_of(name: str, recorded: Sequence[SinkTable], storage: CheckpointStorage, log: ManifestLog) -> SinkCommits:
        return SinkCommits(name, job.operators, storage, log, lambda *_: None)

    assert options.restore is not None
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


__all__ = ["plan_restore"]
