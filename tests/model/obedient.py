"""The function that executes commands, in a harness."""

import json
from collections.abc import Iterator
from typing import Any

from commands import BROADCAST, INPUT, NOTES, OUTPUT, RULES, UNION, obey, on_timer
from plain_operator import MAX_PARALLELISM

from state_engine.api import (
    AggregatingStateDescriptor,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.backends.keys import Namespaced
from state_engine.testing import KeyedBroadcastOperatorTestHarness


class Obedient(KeyedBroadcastProcessFunction, CheckpointedFunction):
    """Has states of all kinds, and executes the commands of its records."""

    def __init__(self, descriptors: list[StateDescriptor]) -> None:
        self.descriptors = descriptors

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.states = {"notes": store.get_list_state(NOTES), "union": store.get_union_list_state(UNION)}

    def snapshot_state(self, context: Any) -> None:
        pass  # what is in operator state was put there by records

    def open(self, runtime_context: Any) -> None:
        self.keys = runtime_context.keys  # namespaces are the engine's own business: windows are made of them
        ask = {
            ValueStateDescriptor: runtime_context.get_state,
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
            ReducingStateDescriptor: runtime_context.get_reducing_state,
            AggregatingStateDescriptor: runtime_context.get_aggregating_state,
        }
        self.states |= {descriptor.name: ask[type(descriptor)](descriptor) for descriptor in self.descriptors}

    def timer_service(self) -> Any:
        return self.timers

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.timers = ctx.timer_service()
        self.states["rules"] = ctx.get_broadcast_state(RULES)
        if value.space is not None:
            self.keys.entry = Namespaced(value.k, value.space)
        yield value.k, obey(self, value.call, json.loads(value.arguments))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.states["rules"] = ctx.get_broadcast_state(RULES)
        yield None, obey(self, value.call, json.loads(value.arguments))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.timers = ctx.timer_service()
        self.states["rules"] = ctx.get_broadcast_state(RULES)
        yield ctx.get_current_key(), on_timer(self, timestamp, ctx.time_domain())


def obedient_harness(
    descriptors: list[StateDescriptor], state_backend: Any, parallelism: int
) -> KeyedBroadcastOperatorTestHarness:
    return KeyedBroadcastOperatorTestHarness(
        Obedient(descriptors),
        "k",
        INPUT,
        BROADCAST,
        OUTPUT,
        [RULES],
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        state_backend=state_backend,
    )
