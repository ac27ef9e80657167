"""States of a key in one window, for use while the current entry is the key without a window."""

from collections.abc import Callable
from typing import Any

from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from state_engine.backends.keys import KeyContext


class Scope:
    """The current window.

    Attributes:
        entry: The key with the window as its namespace.
    """

    __slots__ = ("entry",)

    def __init__(self) -> None:
        self.entry: Any = None


class _Scoped:
    """Calls a state as if the scope's entry were the current one."""

    def __init__(self, state: Any, scope: Scope, keys: KeyContext) -> None:
        self._state = state
        self._scope = scope
        self._keys = keys


def _in_scope(name: str) -> Callable[..., Any]:
    def call(self: _Scoped, *args: Any, **named: Any) -> Any:
        keys = self._keys
        before, keys.entry = keys.entry, self._scope.entry
        try:
            return getattr(self._state, name)(*args, **named)
        finally:
            keys.entry = before

    return call


def _scoped_class(interface: Any) -> Any:
    """Makes the class of scoped states of an interface; the interface's other methods call its abstract ones."""
    methods = {name: _in_scope(name) for name in interface.__abstractmethods__}
    return type(f"Scoped{interface.__name__}", (_Scoped, interface), methods)


_INTERFACES = (ValueState, ListState, MapState, ReducingState, AggregatingState)
_CLASSES = [(interface, _scoped_class(interface)) for interface in _INTERFACES]


def scoped(state: Any, scope: Scope, keys: KeyContext) -> Any:
    """Wraps a state so that it is read and written under the scope's entry."""
    return next(made for interface, made in _CLASSES if isinstance(state, interface))(state, scope, keys)


__all__ = ["Scope", "scoped"]
