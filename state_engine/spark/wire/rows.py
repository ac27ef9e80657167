"""What travels between the stages of an epoch, besides the author's columns.

Every row carries one column of ours, `control`: null for a record, bytes for a mark. A mark is a control row before the
first operator, or a barrier after an operator. It begins with the key group by which it is routed, in five digits; in a
barrier's mark the barrier follows. A record is routed by its key, so that nothing else of ours has to be exchanged with
each record: one more column costs a tenth of an epoch. Only records of operators without a key, or with a broadcast
input, carry the key group by which they are routed, in `group`. Records with event times carry these in `EVENT_TIME`.
If an operator has to report event times by edge and partition, records also carry `partition`: `<edge>|<partition>`,
null for an edge that passes on a watermark. If several operators read one operator, its rows carry `place`: the
partition of the exchange between them to which the row goes.
"""

import msgspec
import pyarrow as pa

from state_engine.log.barriers import Barrier
from state_engine.runtime.emitted import EVENT_TIME

GROUP = "__ls_group"
CONTROL = "__ls_control"
PARTITION = "__ls_partition"
PLACE = "__ls_place"
CONTROL_DDL = f"{CONTROL} binary"
OUR_DDL = {
    EVENT_TIME: f"{EVENT_TIME} bigint",
    PARTITION: f"{PARTITION} string",
    PLACE: f"{PLACE} int",
    CONTROL: CONTROL_DDL,
}
PLAN_PROPERTY = "lakestate.epoch.plan"

_DIGITS = 5
IS_MARK = f"{CONTROL} is not null"
GROUP_OF_MARK = f"cast(cast(substring({CONTROL}, 1, {_DIGITS}) as string) as bigint)"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Barrier)


def control_row(group: str) -> str:
    """Returns the mark of a control row as Spark SQL; `group` is an expression of its key group."""
    return f"cast(lpad(cast({group} as string), {_DIGITS}, '0') as binary)"


def encode_barrier(barrier: Barrier) -> bytes:
    """Returns a barrier as bytes. It lives for one epoch, so its form is not a durable format."""
    return _encoder.encode(barrier)


def decode_barrier(data: bytes) -> Barrier:
    """Returns the barrier of these bytes."""
    return _decoder.decode(data)


def barrier_mark(group: int, barrier: Barrier) -> bytes:
    """Returns the mark of a barrier."""
    return b"%0*d" % (_DIGITS, group) + encode_barrier(barrier)


def group_of_mark(mark: bytes) -> int:
    """Returns the key group by which a mark was routed."""
    return int(mark[:_DIGITS])


def barrier_of_mark(mark: bytes) -> Barrier | None:
    """Returns the barrier of a mark; a control row has none."""
    return decode_barrier(mark[_DIGITS:]) if len(mark) > _DIGITS else None


def is_record(batch: pa.RecordBatch) -> "pa.BooleanArray":
    """Returns which rows of a batch are records."""
    return batch.column(CONTROL).is_null()


__all__ = [
    "CONTROL",
    "CONTROL_DDL",
    "GROUP",
    "GROUP_OF_MARK",
    "IS_MARK",
    "OUR_DDL",
    "PARTITION",
    "PLACE",
    "PLAN_PROPERTY",
    "barrier_mark",
    "barrier_of_mark",
    "control_row",
    "decode_barrier",
    "encode_barrier",
    "group_of_mark",
    "is_record",
]
