"""The conformance suite, for the heap backend, and for backends that store values by namespace and by place."""

from values_by_namespace import ByNamespace, ByPlace

from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.time import OperatorTime
from state_engine.key_groups import KeyGroupRange
from state_engine.testing.state_suite import StateSuite


class TestHeapBackend(StateSuite):
    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> HeapKeyedStateBackend:
        return HeapKeyedStateBackend(uid, codec, key_groups, context, time)


class TestHeapBackendByNamespace(StateSuite):
    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> HeapKeyedStateBackend:
        return ByNamespace(uid, codec, key_groups, context, time)


class TestHeapBackendByPlace(StateSuite):
    def make_backend(
        self, uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> HeapKeyedStateBackend:
        return ByPlace(uid, codec, key_groups, context, time)
