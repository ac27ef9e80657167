"""What every task of an operator is sent: constant for the life of the query, so that a worker keeps what it made."""

import hashlib
from dataclasses import dataclass, field

from pyspark import cloudpickle

from state_engine.api.codecs import register_type_codec, registered_codecs
from state_engine.api.state_backend import HashMapStateBackend, StateBackend
from state_engine.runtime.spec import OperatorSpec
from state_engine.spark.handover import Handover, Reader


@dataclass(frozen=True)
class StageSpec:
    """One sink of an operator's output.

    Attributes:
        sink: The sink's uid; staged files are named in acks under it.
        output: `main` or a tag id.
        table: Root of the sink's Delta table, where the files are staged; None for other sinks, whose output is staged
            in the job's own folder, and "" for a sink that discards.
    """

    sink: str
    output: str
    table: str | None


@dataclass(frozen=True)
class TaskSpec:
    """One operator as its tasks know it.

    Attributes:
        operator: The operator, with the author's function.
        stages: Where its outputs go.
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
        """How its outputs travel to those who read them."""
        spec = self.operator
        return Handover(self.readers, spec.output, spec.side_outputs, timed=spec.emits_event_time)


def pack(spec: TaskSpec) -> tuple[bytes, str]:
    """Returns a spec as bytes for the workers, with the codecs that are registered here, and their digest."""
    data: bytes = cloudpickle.dumps((spec, registered_codecs()))  # type: ignore[no-untyped-call]
    return data, hashlib.sha256(data).hexdigest()


def unpack(data: bytes) -> TaskSpec:
    """Returns a new copy of the spec, with a function of its own."""
    spec: TaskSpec
    spec, codecs = cloudpickle.loads(data)
    for kind, codec in codecs.items():
        register_type_codec(kind, codec)
    return spec


__all__ = ["StageSpec", "TaskSpec", "pack", "unpack"]
