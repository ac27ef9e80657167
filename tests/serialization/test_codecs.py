"""Codecs: an author's classes as typed, versioned columns."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    TypeCodec,
    Types,
    ValueStateDescriptor,
    register_type_codec,
)
from state_engine.api.type_hints import type_information
from state_engine.errors import JobDefinitionError, StateTypeChangedError, UnsupportedTypeError, UnsupportedVersionError
from state_engine.serialization.convert import ValueTypeError, reader, writer
from state_engine.serialization.mutability import conformer, copier
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness


class Polygon:
    """A class that can change, and is no dataclass."""

    def __init__(self, *corners: tuple[int, int]) -> None:
        self.corners = list(corners)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polygon) and other.corners == self.corners


class PolygonCodec(TypeCodec[Polygon]):
    version = 1
    stored_type = "array<struct<x:bigint,y:bigint>>"

    def encode(self, value: Polygon) -> Any:
        return value.corners

    def decode(self, stored: Any, version: int) -> Polygon:
        corners = [(corner.x, corner.y) for corner in stored]
        return Polygon(*(corners if version else reversed(corners)))  # version 0 wrote them in reverse order


class FirstPolygonCodec(PolygonCodec):
    version = 0

    def encode(self, value: Polygon) -> Any:
        return value.corners[::-1]


class FractionCodec(TypeCodec[Fraction]):
    version = 0
    stored_type = Types.TUPLE([Types.LONG(), Types.LONG()])

    def encode(self, value: Fraction) -> Any:
        return value.numerator, value.denominator

    def decode(self, stored: Any, version: int) -> Fraction:
        return Fraction(*stored)


register_type_codec(Fraction, FractionCodec())
TRIANGLE = Polygon((0, 0), (1, 0), (0, 1))


def test_the_stored_form_has_a_version() -> None:
    kind = type_information(PolygonCodec())
    assert kind.ddl() == "struct<codec_version:int,value:array<struct<x:bigint,y:bigint>>>"
    assert writer(kind)([TRIANGLE, None]).to_pylist() == [
        {"codec_version": 1, "value": [{"x": 0, "y": 0}, {"x": 1, "y": 0}, {"x": 0, "y": 1}]},
        None,
    ]


def test_values_come_back() -> None:
    kind = type_information(PolygonCodec())
    assert reader(kind)(writer(kind)([None, TRIANGLE, Polygon()])) == [None, TRIANGLE, Polygon()]


def test_an_older_version_is_read_by_the_newer_codec() -> None:
    stored = writer(type_information(FirstPolygonCodec()))([TRIANGLE])
    assert reader(type_information(PolygonCodec()))(stored) == [TRIANGLE]


def test_a_newer_version_is_refused_by_the_older_codec() -> None:
    stored = writer(type_information(PolygonCodec()))([TRIANGLE])
    with pytest.raises(UnsupportedVersionError, match="version 1 of FirstPolygonCodec; this code has 0"):
        reader(type_information(FirstPolygonCodec()))(stored)


def test_a_registered_class_may_be_anywhere() -> None:
    @dataclass
    class Share:
        name: str
        part: Fraction

    Share.__annotations__["part"] = Fraction
    kind = type_information(Share)
    values = [Share("a", Fraction(1, 3)), Share("b", Fraction(-5, 7))]
    assert reader(kind)(writer(kind)(values)) == values
    many = type_information(list[Fraction])
    assert reader(many)(writer(many)([[Fraction(1, 2)], []])) == [[Fraction(1, 2)], []]


def test_what_encode_does_not_take_is_named() -> None:
    with pytest.raises(ValueTypeError, match=r"FractionCodec.encode\(\) raised AttributeError") as wrong:
        writer(type_information(Fraction))([Fraction(1), "x"])
    assert wrong.value.index == 1


def test_values_that_can_change_are_copies() -> None:
    kind = type_information(PolygonCodec())
    conform, copy = conformer(kind), copier(kind)
    assert conform is not None
    assert copy is not None
    kept = conform(TRIANGLE)
    assert kept == TRIANGLE
    assert kept.corners is not TRIANGLE.corners
    assert copy(kept).corners is not kept.corners
    assert conform(None) is None


class Shapes(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", PolygonCodec()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", PolygonCodec()))
        self.parts = runtime_context.get_map_state(MapStateDescriptor("parts", Types.STRING(), Fraction))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        before = self.last.value()
        shape = Polygon(*(before.corners if before else ()), (value.x, value.y))
        self.last.update(shape)
        shape.corners.append((99, 99))  # does not change the stored value
        self.all.add(self.last.value())
        self.parts.put("part", (self.parts.get("part") or Fraction(0)) + Fraction(1, value.y))
        return [(value.k, len(self.last.value().corners), str(self.parts.get("part")), len(list(self.all)))]


def shapes(function: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(
        function, "k", "k string, x bigint, y bigint", "k string, corners int, part string, shapes int"
    )


def test_states_of_a_class_of_ones_own() -> None:
    with shapes(Shapes()) as before:
        before.process_elements([("a", 1, 2), ("a", 3, 3)])
        assert before.extract_output_values() == [("a", 1, "1/2", 1), ("a", 2, "5/6", 2)]
        snapshot = before.snapshot()
    with shapes(Shapes()) as after:
        after.initialize_state(snapshot)
        after.process_element(("a", 5, 6))
        assert after.extract_output_values() == [("a", 3, "1", 3)]
    assert snapshot.table("parts").column("value").to_pylist() == [
        {"codec_version": 0, "value": {"f0": 5, "f1": 6}},
    ]


class Broken(Shapes):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        self.last.update("no polygon")
        return []


def test_a_value_that_is_none_fails_by_name() -> None:
    with shapes(Broken()) as harness, pytest.raises(StateTypeChangedError, match=r"'last'.*PolygonCodec.encode"):
        harness.process_element(("a", 1, 1))


class NoVersion(TypeCodec[int]):
    stored_type: ClassVar[Any] = "bigint"

    def encode(self, value: int) -> Any:
        return value

    def decode(self, stored: Any, version: int) -> int:
        return int(stored)


class BadType(NoVersion):
    version = 0
    stored_type = "interval"


class OtherFractionCodec(FractionCodec):
    pass


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: type_information(NoVersion()), JobDefinitionError),
        (lambda: type_information(BadType()), UnsupportedTypeError),
        (lambda: register_type_codec(Fraction, OtherFractionCodec()), JobDefinitionError),
        (lambda: register_type_codec(Fraction, FractionCodec), JobDefinitionError),  # type: ignore[arg-type]
        (lambda: register_type_codec("Fraction", FractionCodec()), JobDefinitionError),  # type: ignore[arg-type]
        (lambda: MapStateDescriptor("m", Fraction, Types.LONG()), None),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, error: type[Exception] | None) -> None:
    if error is None:
        with pytest.raises(UnsupportedTypeError):
            shapes_with_key(wrong())
        return
    with pytest.raises(error):
        wrong()


def shapes_with_key(descriptor: MapStateDescriptor) -> None:
    class WithKey(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_map_state(descriptor)

        def process_element(self, value: Any, ctx: Any) -> None: ...

    shapes(WithKey())


def test_registering_the_same_codec_again_is_fine() -> None:
    register_type_codec(Fraction, FractionCodec())
