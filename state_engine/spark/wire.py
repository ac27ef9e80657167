"""What travels between the stages of an epoch, besides the author's columns.

Every row carries three columns of ours. `kind` is 0 for a record and 1 for a control row or barrier, `group` is the key
group by which the row is routed, and `control` holds a barrier's bytes (null otherwise). A control row in front of the
first operator has null in `control`: all it has to do is to exist, so that each subtask runs, also on an empty batch.
"""

import msgspec

from state_engine.log.records import Barrier

KIND = "__ls_kind"
GROUP = "__ls_group"
CONTROL = "__ls_control"
RECORD, MARK = 0, 1

WIRE_DDL = f"{KIND} tinyint, {GROUP} int, {CONTROL} binary"
PLAN_PROPERTY = "lakestate.epoch.plan"

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Barrier)


def encode_barrier(barrier: Barrier) -> bytes:
    """Returns a barrier as bytes. It lives for one epoch, so its form is not a durable format."""
    return _encoder.encode(barrier)


def decode_barrier(data: bytes) -> Barrier:
    """Returns the barrier of these bytes."""
    return _decoder.decode(data)


__all__ = [
    "CONTROL",
    "GROUP",
    "KIND",
    "MARK",
    "PLAN_PROPERTY",
    "RECORD",
    "WIRE_DDL",
    "decode_barrier",
    "encode_barrier",
]
