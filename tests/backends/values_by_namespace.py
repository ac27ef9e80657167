"""A heap backend for tests that keeps all value states that can be by namespace, as declared windows have theirs."""

from copy import copy
from typing import Any

from state_engine.api.descriptors import StateDescriptor, ValueStateDescriptor
from state_engine.backends.heap import HeapKeyedStateBackend


class ByNamespace(HeapKeyedStateBackend):
    """The backend."""

    def state(self, descriptor: StateDescriptor) -> Any:
        if isinstance(descriptor, ValueStateDescriptor):
            descriptor = copy(descriptor)
            descriptor.by_namespace = True
        return super().state(descriptor)
