"""Which Arrow types Spark may send, and which it may not."""

import datetime

import pyarrow as pa
import pytest

from state_engine.api.types import AtomicType
from state_engine.errors import UnsupportedTypeError
from state_engine.serialization.column import Column
from state_engine.serialization.convert import reader
from state_engine.serialization.types import arrow_to_ddl, columns_to_arrow, from_arrow, parse_columns

SPELLED = [
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.large_binary(), "binary"),
    (pa.timestamp("us", tz="Europe/Berlin"), "timestamp"),
    (pa.timestamp("ns"), "timestamp_ntz"),
    (pa.large_list(pa.int32()), "array<int>"),
    (pa.list_(pa.field("item", pa.int32(), nullable=False)), "array<int>"),
]


@pytest.mark.parametrize(("arrow", "ddl"), SPELLED, ids=[str(a) for a, _ in SPELLED])
def test_variants_of_one_type(arrow: pa.DataType, ddl: str) -> None:
    assert arrow_to_ddl(arrow) == ddl


@pytest.mark.parametrize(
    "arrow", [pa.null(), pa.uint8(), pa.float16(), pa.time64("us"), pa.duration("us"), pa.date64()], ids=str
)
def test_other_types_are_refused_by_name(arrow: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError) as refused:
        from_arrow(arrow)
    assert str(arrow) in str(refused.value)
    assert "Cast" in refused.value.action


def test_instants_are_read_in_utc_whatever_their_zone() -> None:
    moment = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
    array = pa.array([moment, None], pa.timestamp("us", tz="Europe/Berlin"))
    assert reader(AtomicType("timestamp"))(array) == [moment, None]
    assert reader(AtomicType("timestamp"))(array)[0].tzinfo is datetime.UTC


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_naive_times_are_read_in_any_unit(unit: str) -> None:
    moment = datetime.datetime(1969, 7, 20, 20, 17)
    assert reader(AtomicType("timestamp_ntz"))(pa.array([moment], pa.timestamp(unit))) == [moment]


def test_columns_are_spelled_canonically() -> None:
    columns = parse_columns("Key LONG, `a b` array<int>")
    assert columns == (Column(name="Key", type="bigint"), Column(name="a b", type="array<int>"))
    assert columns_to_arrow(columns).names == ["Key", "a b"]
