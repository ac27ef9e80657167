"""Bodies of requests and of answers about operations, with Flink's names."""

from typing import Annotated, Any, Literal

import msgspec

from lakestate.failure_facts import FailureFacts
from state_engine.savepoint.group_report import KeyGroupRestore
from state_engine.savepoint.request import SavepointKind, SavepointRequest

FormatType = Literal["CANONICAL", "NATIVE", "DEFAULT"]
"""`DEFAULT` is the canonical one, as in Flink."""


class Empty(msgspec.Struct):
    """A body without content, `{}`."""


class SavepointTrigger(msgspec.Struct, kw_only=True, rename="kebab"):
    """Requests a savepoint. Flink's `SavepointTriggerRequestBody`, and `label`, `note`, `epoch` and `trigger`.

    `epoch` is a sealed one of the current lineage, by default the newest; not with `cancel_job`. `trigger` names the
    requester, by default `rest`. Retention may remove savepoints that a policy requested (`policy:<name>`).
    """

    target_directory: str | None = None
    cancel_job: bool | None = False
    format_type: FormatType | None = msgspec.field(default="CANONICAL", name="formatType")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")
    label: str = ""
    note: str = ""
    epoch: int | None = None
    trigger: str = ""

    def request(self) -> SavepointRequest:
        """Returns the savepoint that the body requests."""
        kind = kind_of(self.format_type)
        return SavepointRequest(kind, self.target_directory, self.label, self.note, self.epoch, self.trigger)


def savepoint_trigger(request: SavepointRequest, *, cancel_job: bool = False) -> SavepointTrigger:
    """Returns the body that requests a savepoint."""
    return SavepointTrigger(**_fields(request), epoch=request.epoch, cancel_job=cancel_job)


class StopWithSavepoint(msgspec.Struct, kw_only=True, rename="camel"):
    """Requests a stop with a savepoint. Flink's `StopWithSavepointRequestBody`, and `label`, `note` and `trigger`."""

    target_directory: str | None = None
    drain: bool | None = False
    format_type: FormatType | None = "CANONICAL"
    trigger_id: str | None = None
    label: str = ""
    note: str = ""
    trigger: str = ""

    def request(self) -> SavepointRequest:
        """Returns the savepoint that the body requests: of the epoch with which the job ends."""
        kind = kind_of(self.format_type)
        return SavepointRequest(kind, self.target_directory, self.label, self.note, trigger=self.trigger)


def stop_with_savepoint(request: SavepointRequest, *, drain: bool = False) -> StopWithSavepoint:
    """Returns the body that requests the stop of a job with a savepoint."""
    return StopWithSavepoint(**_fields(request), drain=drain)


def kind_of(format_type: FormatType | None) -> SavepointKind:
    """Returns the kind of savepoint that a format means."""
    return "native" if format_type == "NATIVE" else "canonical"


def _fields(request: SavepointRequest) -> dict[str, Any]:
    """Returns the fields of a request that both bodies have."""
    return {
        "format_type": "CANONICAL" if request.kind == "canonical" else "NATIVE",
        "target_directory": request.directory,
        "label": request.label,
        "note": request.note,
        "trigger": request.trigger,
    }


class Rescaling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Requests another parallelism of some operators, by uid. A query parameter does it for all. Not in Flink."""

    operators: dict[str, Annotated[int, msgspec.Meta(ge=1)]] | None = None


class CheckpointTrigger(msgspec.Struct, kw_only=True, rename="camel"):
    """Requests a checkpoint. Flink's `CheckpointTriggerRequestBody`."""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = "CONFIGURED"
    trigger_id: str | None = None


class SavepointDisposal(msgspec.Struct, kw_only=True, rename="kebab"):
    """Requests the removal of a savepoint. Flink's `SavepointDisposalRequest`."""

    savepoint_path: str
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class KeyGroupsRestore(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Requests a restore of some key groups, or of some keys, from another state. Not in Flink.

    Either `key_groups`, as pairs of first and last, both inclusive, or `keys`: lists of the key columns' values; a
    single column's value may be given without a list. `operators` are uids.
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
    """The result of a savepoint: its location, or the failure."""

    location: str | None = None
    failure_cause: FailureCause | None = None


class CheckpointInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result of a checkpoint: its id, or the failure."""

    checkpoint_id: int | None = msgspec.field(default=None, name="checkpointId")
    failure_cause: FailureCause | None = msgspec.field(default=None, name="failure-cause")


class PlainInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """The end of an operation that returns nothing; empty after success. Flink's `AsynchronousOperationInfo`."""

    failure_cause: FailureCause | None = None


class KeyGroupsInfo(msgspec.Struct, kw_only=True, rename="kebab", omit_defaults=True):
    """The result of a restore of key groups: what it did, or would do, or the failure."""

    report: KeyGroupRestore | None = None
    failure_cause: FailureCause | None = None


class KeyGroupsResult(msgspec.Struct, kw_only=True):
    """The status of a restore of key groups, and its result once it has ended."""

    status: QueueStatus
    operation: KeyGroupsInfo | None


class SavepointResult(msgspec.Struct, kw_only=True):
    """The status of a savepoint, and its result once it has ended."""

    status: QueueStatus
    operation: SavepointInfo | None


class CheckpointResult(msgspec.Struct, kw_only=True):
    """The status of a checkpoint, and its result once it has ended."""

    status: QueueStatus
    operation: CheckpointInfo | None


class PlainResult(msgspec.Struct, kw_only=True):
    """The status of an operation that returns nothing, and its failure, if any, once it has ended."""

    status: QueueStatus
    operation: PlainInfo | None


class Errors(msgspec.Struct, kw_only=True):
    """A request that was refused. Flink's `ErrorResponseBody`."""

    errors: list[str]
