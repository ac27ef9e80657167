"""Classes of the program's own script: workers get them by value, without their module, and with further objects."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, ReducingStateDescriptor, ValueStateDescriptor
from state_engine.api.type_hints import type_information
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

AS_A_WORKER = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"


@dataclass
class Leg:
    at: datetime.datetime
    count: int = 1


@dataclass(slots=True)
class Trip:
    """Has a field without a default, one with a default, and hints as text."""

    name: str
    legs: list[Leg] = field(default_factory=list)
    longest: Leg | None = None
    price: float = 0.5


@pytest.fixture(autouse=True, scope="module")
def by_value() -> Iterator[None]:
    """Treats this module as the script that is run."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def in_a_worker(call: Any) -> str:
    """Returns what a call prints in a process that has not imported this module."""
    sent = cloudpickle.dumps(call)
    child = subprocess.run([sys.executable, "-c", AS_A_WORKER], input=sent, capture_output=True)
    assert child.returncode == 0, child.stderr.decode()
    return child.stdout.decode()


class Keeps(KeyedProcessFunction):
    """Keeps a trip, and reduces legs."""

    def open(self, runtime_context: Any) -> None:
        self.trip = runtime_context.get_state(ValueStateDescriptor("trip", Trip))
        self.legs = runtime_context.get_reducing_state(
            ReducingStateDescriptor("legs", lambda one, other: Leg(other.at, one.count + other.count), Leg)
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        trip = self.trip.value() or Trip(value.k)
        leg = Leg(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC))
        self.legs.add(leg)
        trip.legs.append(leg)
        self.trip.update(trip)
        yield value.k, f"{type(trip).__name__} {len(trip.legs)} {trip.price} {self.legs.get().count}"


def kept() -> Any:
    with Harness(Keeps(), "k", "k string", "k string, found string") as harness:
        harness.process_elements([("a",), ("a",)])
        harness.process_elements([("a",)])
        return [tuple(row) for row in harness.extract_output_values()]


def test_a_dataclass_is_a_type_of_state_in_a_worker() -> None:
    type_information(Trip)  # as the driver does when it looks for the states of a function
    assert in_a_worker(kept) == str([("a", "Trip 1 0.5 1"), ("a", "Trip 2 0.5 2"), ("a", "Trip 3 0.5 3")]) + "\n"


def test_a_dataclass_is_a_type_of_state_in_the_driver_that_has_made_a_copy() -> None:
    """A copy by value sets the attributes of the class again, also those of the original."""
    copy = cloudpickle.loads(cloudpickle.dumps(Trip))
    assert copy is Trip
    assert dataclasses.fields(Trip)[0].default is not dataclasses.MISSING, "this is what the test is about"
    assert len(kept()) == 3
