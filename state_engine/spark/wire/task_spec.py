"""What every task of an operator is sent: constant for the life of a query, so that a worker can keep what it made."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle

from state_engine.api.codecs import register_type_codec, registered_codecs
from state_engine.api.state_backend import HashMapStateBackend, StateBackend
from state_engine.causes import WorkerEndsError, cause_line, sentence
from state_engine.errors import UserFunctionError
from state_engine.runtime.spec import OperatorSpec
from state_engine.spark.wire.failures import with_fields
from state_engine.spark.wire.handover import Handover, Reader


@dataclass(frozen=True)
class StageSpec:
    """One sink of an operator's output.

    Attributes:
        sink: The sink's uid; staged files are named in acks under it.
        output: `main` or a tag id.
        table: Root of the sink's Delta table, where the files are staged; None for other sinks: their output is staged
            in the job's own folder, and "" for a sink that discards.
        partition_by: Columns by which the table is divided.
    """

    sink: str
    output: str
    table: str | None
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskSpec:
    """One operator as its tasks get it.

    Attributes:
        operator: The operator, with the author's function.
        stages: The sinks of its outputs.
        readers: The operators that read its outputs, one for each edge.
        codec: Codec of change files.
        cache_bytes: How much state a worker may keep, over all ranges; an estimate by its number of rows.
        state_backend: Where a worker keeps keyed state.
    """

    operator: OperatorSpec
    stages: tuple[StageSpec, ...] = ()
    readers: tuple[Reader, ...] = ()
    codec: str = "zstd"
    cache_bytes: int = 2 << 30
    state_backend: StateBackend = field(default_factory=HashMapStateBackend)

    @property
    def handover(self) -> Handover:
        """How its outputs travel to the operators that read them."""
        spec = self.operator
        return Handover(self.readers, spec.output, spec.side_outputs, timed=spec.emits_event_time)


def pack(spec: TaskSpec) -> tuple[bytes, str]:
    """Returns a spec as bytes for the workers, with the codecs that are registered here, and their digest."""
    inner = cloudpickle.dumps((spec, registered_codecs()))  # type: ignore[no-untyped-call]
    data: bytes = cloudpickle.dumps((spec.operator.uid, inner))  # type: ignore[no-untyped-call]
    return data, hashlib.sha256(data).hexdigest()


def unpack(data: bytes) -> TaskSpec:
    """Returns a new copy of the spec, with a function of its own.

    Raises:
        UserFunctionError: The function cannot be loaded here: a module is missing, or has changed.
    """
    uid, inner = cloudpickle.loads(data)
    spec: TaskSpec
    spec, codecs = loaded(inner, f"The function of operator {uid!r}", operator=uid)
    for kind, codec in codecs.items():
        register_type_codec(kind, codec)
    return spec


def loaded(data: bytes, what: str, *, operator: str = "") -> Any:
    """Returns what the driver has pickled.

    Args:
        data: The author's code, and what belongs to it.
        what: What the code is, as the beginning of a sentence.
        operator: Uid of its operator, if it belongs to one.

    Raises:
        UserFunctionError: It cannot be loaded here.
    """
    try:
        return cloudpickle.loads(data)
    except WorkerEndsError:
        raise
    except BaseException as error:
        failure = UserFunctionError(
            sentence(f"{what} cannot be loaded by a worker: {cause_line(error)}"),
            action="Give the workers the modules that it imports: install them there, or send them along "
            "(spark.submit.pyFiles); then start again.",
            operator=operator,
        )
        raise with_fields(failure) from error  # Spark loads some functions outside the code of a task


def travelling(kind: type, parts: tuple[Any, ...], what: str) -> tuple[object, ...]:
    """Returns the `__reduce__` of an object for workers: as bytes, so that the error of a failed load names the code.

    Args:
        kind: A class of ours, which is called with the parts in the worker.
        parts: The arguments of that call; the author's code is among them.
        what: As in `loaded`.
    """
    return _arrived, (kind, cloudpickle.dumps(parts), what)  # type: ignore[no-untyped-call]


def _arrived(kind: type, data: bytes, what: str) -> Any:
    return kind(*loaded(data, what))


__all__ = ["StageSpec", "TaskSpec", "loaded", "pack", "travelling", "unpack"]
