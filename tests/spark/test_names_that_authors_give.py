"""Arguments that take names: one name is one column or operator; other values are refused with their kind."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from state_engine.errors import JobDefinitionError
from state_engine.spark import StreamJob
from state_engine.spark.graph.dry import DrySession
from state_engine.spark.graph.nodes import Edge
from state_engine.spark.graph.stream import DataStream
from state_engine.spark.wire.names import column_names, uid_list


class Column:
    """A class that is like Spark's Column."""

    def __iter__(self) -> Iterator[str]:
        raise TypeError("Column is not iterable")

    def __call__(self) -> None:
        raise TypeError("Column is not callable")

    def __str__(self) -> str:
        return "Column<'id'>"


def frame() -> Any:
    return DrySession().readStream.schema("id string, d bigint, i bigint").load("/in")


@pytest.fixture
def stream() -> DataStream:
    return StreamJob("names", root="memory://names").from_stream(frame())


def another(stream: DataStream) -> DataStream:
    """A stream of the same job, from another source."""
    source = stream._graph.add_source(frame(), "source", replays=True, bounded=False)
    return DataStream(stream._graph, (Edge(source),), stream.columns)


@pytest.mark.parametrize(
    ("given", "key"),
    [(("id",), ("id",)), (("id", "d"), ("id", "d")), ((["id", "d"],), ("id", "d")), ((("id",), "d"), ("id", "d"))],
)
def test_a_name_is_a_column_and_a_list_is_its_names(
    stream: DataStream, given: tuple[str, ...], key: tuple[str]
) -> None:
    assert stream.key_by(*given).key == key


def test_an_order_by_one_column_is_not_one_by_its_letters(stream: DataStream) -> None:
    assert stream.key_by("id", order_by="id").order_by == ("id",)
    joined = stream.connect(another(stream)).key_by("id", "id", order_by1="d", order_by2=["d"])
    assert [one.order_by for one in joined.inputs] == [("d",), ("d",)]


@pytest.mark.parametrize(
    ("key_by", "told"),
    [
        (lambda stream: stream.key_by(lambda v: v.id), "key_by.* got a function"),
        (lambda stream: stream.key_by(Column()), "key_by.* got a Column of Spark .Column<'id'>"),
        (lambda stream: stream.key_by([Column()]), "key_by.* got a Column"),
        (lambda stream: stream.key_by(0), "key_by.* got int .0"),
        (lambda stream: stream.key_by(b"id"), "key_by.* got bytes"),
        (lambda stream: stream.key_by("id", order_by=lambda v: v.d), "order_by of key_by.* got a function"),
        (lambda stream: stream.key_by("id", order_by=[0]), "order_by of key_by.* got int"),
        (lambda stream: stream.connect(another(stream)).key_by(lambda v: v.id, "id"), "key_by.* got a function"),
    ],
)
def test_what_is_no_name_is_refused_with_what_to_do(
    stream: DataStream, key_by: Callable[[DataStream], object], told: str
) -> None:
    with pytest.raises(JobDefinitionError, match=told) as refused:
        key_by(stream)
    assert '.with_column("k", "upper(id)").key_by("k")' in refused.value.action


def test_one_uid_is_one_operator() -> None:
    assert uid_list("count") == ("count",)
    assert uid_list(["a", "b"]) == ("a", "b")
    assert column_names((), "key_by()") == ()
