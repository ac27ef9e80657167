"""Bodies of requests and of answers about operations, with Flink's names."""

from typing import Annotated, Any, Literal

import msgspec

from lakestate.failure_facts import FailureFacts
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.stop import SavepointRequest

FormatType = Literal["CANONICAL", "NATIVE", "DEFAULT"]
"""`DEFAULT` is the canonical one, as in Flink."""


class Empty(msgspec.Struct):
    """A body without content, `{}`."""


class SavepointTrigger(msgspec.Struct, kw_only=True, rename="kebab"):
    """Asks for a savepoint. Flink's `SavepointTriggerRequestBody`, and `label`, `note`, `epoch` and `trigger`.

    `epoch` is a sealed one of the current lineage, by default the newest; not with `cancel_job`. `trigger` is who asks,
    `rest` by default: of savepoints that a policy asked for, `policy:<name>`, retention may remove some.
    """

    target_directory: str | None = None
    cancel_job: bool | None = False
    format_type: FormatType | None = msgspec.field(default="CANONICAL", name="formatType")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")
    label: str = ""
    note: str = ""
    epoch: int | None = None
    trigger: str = ""


def savepoint_trigger(wanted: SavepointRequest, *, cancel_job: bool = False) -> SavepointTrigger:
    """Returns the body that asks for a savepoint."""
    return SavepointTrigger(
        format_type="CANONICAL" if wanted.kind == "canonical" else "NATIVE",
        target_directory=wanted.directory,
        label=wanted.label,
        note=wanted.note,
        epoch=wanted.epoch,
        trigger=wanted.trigger,
        cancel_job=cancel_job,
    )


class StopWithSavepoint(msgspec.Struct, kw_only=True, rename="camel"):
    """Asks for the end of a job with a savepoint: Flink's `StopWithSavepointRequestBody`, and as for a savepoint."""

    target_directory: str | None = None
    drain: bool | None = False
    format_type: FormatType | None = "CANONICAL"
    trigger_id: str | None = None
    label: str = ""
    note: str = ""
    trigger: str = ""


def stop_with_savepoint(wanted: SavepointRequest, *, drain: bool = False) -> StopWithSavepoint:
    """Returns the body that asks for the end of a job with a savepoint."""
    return StopWithSavepoint(
        drain=drain,
        format_type="CANONICAL" if wanted.kind == "canonical" else "NATIVE",
        target_directory=wanted.directory,
        label=wanted.label,
        note=wanted.note,
        trigger=wanted.trigger,
    )


class Rescaling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Asks for another parallelism of some operators, by uid; of all of them by the query parameter. Not in Flink."""

    operators: dict[str, Annotated[int, msgspec.Meta(ge=1)]] | None = None


class CheckpointTrigger(msgspec.Struct, kw_only=True, rename="camel"):
    """Asks for a checkpoint. Flink's `CheckpointTriggerRequestBody`."""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = "CONFIGURED"
    trigger_id: str | None = None


class SavepointDisposal(msgspec.Struct, kw_only=True, rename="kebab"):
    """Asks for the removal of a savepoint. Flink's `SavepointDisposalRequest`."""

    savepoint_path: str
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class KeyGroupsRestore(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Asks for the state of some key groups, or of some keys, as it was elsewhere. Not in Flink.

    Either `key_groups`, as pairs of first and last, both inclusive, or `keys`: lists of the key columns' values, of a
    single column also bare. `operators` are uids.
    """

    source: str
    key_groups: list[tuple[int, int]] | None = None
    keys: list[Any] | None = None
    operators: list[str] | None = None
    dry_run: bool = False
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class Triggered(msgspec.Struct, kw_only=True, rename="kebab"):
    """An operation has begun. Flink's `TriggerResponse`."""

    request_id: str


class QueueStatus(msgspec.Struct, kw_only=True):
    """Whether an operation has ended."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


class FailureCause(msgspec.Struct, kw_only=True, rename="kebab"):
    """What an operation failed with. Flink's `SerializedThrowable` as JSON; `failure` is not in Flink."""

    class_name: str = msgspec.field(name="class")
    stack_trace: str
    serialized_throwable: str
    failure: FailureFacts | None = None  # a process of an earlier release sends none


class SavepointInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """How a savepoint ended: where it is, or why there is none."""

    location: str | None = None
    failure_cause: FailureCause | None = None


class CheckpointInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How a checkpoint ended: its id, or why there is none."""

    checkpoint_id: int | None = msgspec.field(default=None, name="checkpointId")
    failure_cause: FailureCause | None = msgspec.field(default=None, name="failure-cause")


class PlainInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """How something without a result ended; empty if it went well. Flink's `AsynchronousOperationInfo`."""

    failure_cause: FailureCause | None = None


class KeyGroupsInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """What a restore of key groups did, or would do; or why it did not."""

    report: KeyGroupRestore | None = None
    failure_cause: FailureCause | None = None


class KeyGroupsResult(msgspec.Struct, kw_only=True):
    """A restore of key groups under way, or its end."""

    status: QueueStatus
    operation: KeyGroupsInfo | None


class SavepointResult(msgspec.Struct, kw_only=True):
    """A savepoint under way, or its end."""

    status: QueueStatus
    operation: SavepointInfo | None


class CheckpointResult(msgspec.Struct, kw_only=True):
    """A checkpoint under way, or its end."""

    status: QueueStatus
    operation: CheckpointInfo | None


class PlainResult(msgspec.Struct, kw_only=True):
    """Something without a result under way, or its end."""

    status: QueueStatus
    operation: PlainInfo | None


class Errors(msgspec.Struct, kw_only=True):
    """A request that was refused. Flink's `ErrorResponseBody`."""

    errors: list[str]
