"""Streams without Spark, PyFlink's modules, and the functions of a reader that examples use.

Where the page shows a program for PyFlink, `pyflink` is `state_engine.flink`: it has the same names.
"""

import json
import re
import sys
from types import ModuleType

from blocks import blocks_of

from state_engine import flink
from state_engine.api import KeyedBroadcastProcessFunction, KeyedCoProcessFunction
from state_engine.spark.explain import explain_job
from state_engine.spark.graph.dry import DrySession
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

PAYMENT = "account string, shop string, amount bigint"


class Enrich(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield value.user, value.item, "Rome"

    def process_element2(self, value, ctx):
        pass


class Match(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value.user, True

    def process_broadcast_element(self, value, ctx):
        pass


class Sketch:
    """The URLs themselves: the smallest thing that can be called a sketch."""

    def __init__(self, urls=()):
        self.urls = set(urls)

    def add(self, url):
        self.urls.add(url)

    def dump(self, out):
        out.write(json.dumps(sorted(self.urls)).encode())

    @classmethod
    def load(cls, stream):
        return cls(json.load(stream))


def frame(columns):
    return DrySession().readStream.schema(columns).load("input")


def given(monkeypatch):
    for name in ("pyflink.common", "pyflink.datastream", "pyflink.datastream.state"):
        monkeypatch.setitem(sys.modules, name, flink)
    monkeypatch.setitem(sys.modules, "pyflink", ModuleType("pyflink"))
    types = flink.Types
    row = types.ROW_NAMED(["account", "shop", "amount"], [types.STRING(), types.STRING(), types.LONG()])
    env = flink.StreamExecutionEnvironment.get_execution_environment()
    names = {
        "payments": env.from_collection([flink.Row("ann", "pen", 1)], row),
        "payment_frame": frame(PAYMENT),
        "order_frame": frame("user string, item string, at timestamp"),
        "user_frame": frame("id string, city string, changed_at timestamp"),
        "rule_frame": frame("rule string, at_least bigint"),
        "Enrich": Enrich,
        "Match": Match,
        "Sketch": Sketch,
    }
    yield names
    the_class_is_the_same_line_by_line()
    the_plan_has_all_operators(names["job"])
    balances_are_kept(names["Balance"], names["LARGE"])
    money_is_stored_in_two_columns(names["Money"], names["MoneyCodec"])
    a_hundred_records_are_held(names["Buffer"])
    sketches_come_back(names["Sketches"])


def the_class_is_the_same_line_by_line():
    programs = [block.text for block in blocks_of("docs/pyflink.md") if "class Balance" in block.text]
    before, after = (re.search(r"class Balance.*?\n\n\n", program, re.DOTALL)[0] for program in programs)
    assert before == after


def the_plan_has_all_operators(job):
    assert {"balance", "enrich", "match"} == {operator.uid for operator in explain_job(job).operators}


def balances_are_kept(function, large):
    harness = KeyedOneInputStreamOperatorTestHarness(
        function(), "account", PAYMENT, "account string, balance bigint", side_outputs=[large]
    )
    with harness:
        harness.process_elements([("ann", "pen", 10), ("ann", "ink", 2000)])
        assert harness.extract_output_values() == [("ann", 10), ("ann", 2010)]
        assert harness.get_side_output(large) == [("ann", 2000)]


def money_is_stored_in_two_columns(money, codec):
    read = codec().decode(flink.Row(cents=5, currency=None), 0)
    assert (read.cents, read.currency) == (5, "EUR")
    assert codec().encode(money(7, "USD")) == (7, "USD")


def a_hundred_records_are_held(function):
    with KeyedOneInputStreamOperatorTestHarness(function(), (), "n bigint", "n bigint") as harness:
        harness.process_elements([(n,) for n in range(99)])
        assert harness.extract_output_values() == []
        harness.process_element((99,))
        assert len(harness.extract_output_values()) == 100


def sketches_come_back(function):
    def harness():
        return KeyedOneInputStreamOperatorTestHarness(function(), "user", "user string, url string", "url string")

    with harness() as before:
        before.process_elements([("ann", "/"), ("ann", "/cart"), ("bob", "/")])
        snapshot = before.snapshot()
    with harness() as after:
        after.initialize_state(snapshot)
        after.process_element(("ann", "/pay"))
        sketches = [json.loads(stored) for stored in after.snapshot().raw_keyed_state().values()]
    assert sorted(sketches) == [["/"], ["/", "/cart", "/pay"]]
