"""The request of a start, and the result that it hands to the epoch driver."""

import msgspec

from state_engine.epoch.ports import OperatorPlan, StreamEdge
from state_engine.epoch.rewrite import rewritten
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Adopted, BaseReference, Rewrite, SinkTable, StateSchema
from state_engine.log.source_records import SourceFingerprint
from state_engine.log.window_records import WindowsShape
from state_engine.serialization.column import Column


class OperatorShape(msgspec.Struct, frozen=True, kw_only=True):
    """One stateful operator as the job declares it today.

    `schemas` holds the states that are known before any task has run; the others are checked when they first appear in
    an ack. `all_known`: its `open()` could be run, so that it asks for no others there. `generated_uid`: the author
    gave no uid, so that the uid is generated from the operator's place in the job. `windows` is what the state of its
    windows depends on, if it has any.
    """

    uid: str
    parallelism: int
    max_parallelism: int
    keys: tuple[Column, ...]
    edges: tuple[StreamEdge, ...] = (StreamEdge(),)
    schemas: tuple[StateSchema, ...] = ()
    generated_uid: bool = False
    all_known: bool = False
    windows: WindowsShape | None = None


class SavepointLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of a canonical savepoint: the address of a storage, and the folder in it (or all of it)."""

    url: str
    folder: str = ""


class RestoreTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed epoch from which a new generation is to start; of this job, or of another one (a fork).

    `location` is that of a canonical savepoint's folder. Before a start can go on from its files, they must be
    `adopted`: copied below the job's root. The same holds for what a `rewrite` makes of any source.
    `imported`: the job's own log does not have the epoch, because the log was trimmed, or because the savepoint is of
    another job or another root; or the state of another job is rewritten, which that job's own log cannot give.
    """

    stored: StoredManifest
    savepoint_id: str | None = None
    location: SavepointLocation | None = None
    adopted: Adopted | None = None
    imported: bool = False
    rewrite: Rewrite | None = None

    @property
    def seen(self) -> StoredManifest:
        """The epoch as the generation that starts from it sees it: rewritten, under its own hash."""
        return rewritten(self.stored, self.rewrite)


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job.

    Args:
        operators: Upstream first.
        fingerprints: The sources as they are declared today, in order.
        sinks: The sinks as they are declared today.
        parallelism: Overrides that of every operator; no operator may have fewer key groups.
        restore: Without it the job goes on from its newest sealed epoch.
        allow_non_restored_state: State of operators that the job no longer has stays in the log, untouched.
        resume_state: Operators that come back after releases without them, and go on with the state that they had.
        keep_output: A restore leaves the sinks' output as it is; also a restore that an earlier start left unfinished.
            And output that is owed to a sink that the job no longer has is left out.
        adopt_sinks: Tables of sinks that another log has written, or that are ahead of this one, keep their rows. The
            job then goes on in a new generation, after what they hold. Without such tables it changes nothing.
        reset_processing_time: A restore begins with the time of the clock, even if processing time was later before.
            Timers and last accesses keep their times.
        allow_changed_sources: Numbers of the sources that may differ from those of the position, as far as the position
            can be carried over. For a source that does not differ it changes nothing.
        strict: Refuse a start if the log has state that the code does not read.
        lasting: `parallelism` also holds for later starts, until the job's definition names another number, as if the
            job had been rescaled.
    """

    job: str
    root: str
    operators: tuple[OperatorShape, ...]
    fingerprints: tuple[SourceFingerprint, ...] = ()
    sinks: tuple[SinkTable, ...] = ()
    parallelism: int | None = None
    restore: RestoreTarget | None = None
    allow_non_restored_state: bool = False
    resume_state: tuple[str, ...] = ()
    keep_output: bool = False
    adopt_sinks: bool = False
    reset_processing_time: bool = False
    allow_changed_sources: tuple[int, ...] = ()
    strict: bool = False
    lasting: bool = False


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The claimed job from which the epochs go on: the result of S1 to S3, all that S4, S5 and the driver need.

    `stored` is this incarnation's own claim (or the first manifest of the generation that it began). `base` is the
    newest base in its lineage; the next manifest adopts it. `declared` is the parallelism of the job's definition by
    uid, where it is not that of `operators`.
    """

    root: str
    stored: StoredManifest
    operators: tuple[OperatorPlan, ...]
    declared: dict[str, int] = {}
    base: BaseReference | None = None


__all__ = ["Head", "OperatorShape", "RestoreTarget", "SavepointLocation", "StartRequest"]
