"""Discovers which states a function asks for, by opening a copy of it when the job is built."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from state_engine.api.descriptors import StateDescriptor
from state_engine.backends.keys import KeyContext
from state_engine.backends.operator_state import OperatorStateBackend
from state_engine.backends.schemas import check_names, check_same, state_schema
from state_engine.backends.time import OperatorTime
from state_engine.causes import cause_line, sentence
from state_engine.errors import JobDefinitionError, LakestateError
from state_engine.log.records import StateSchema
from state_engine.runtime.contexts import OperatorRuntimeContext, OperatorTimerService
from state_engine.runtime.lifecycle import InitializationContext, LifeCycle
from state_engine.runtime.spec import OperatorSpec


class Discovered(NamedTuple):
    """The states that a function asks for in `initialize_state()` and `open()`.

    Attributes:
        states: Their schemas, as far as they are known.
        all_known: Whether both methods ran to their end, and the function does not ask for states with its first record
            (`asks_in_open`). Then there are no other states, unless the author's code asks for one later.
    """

    states: tuple[StateSchema, ...]
    all_known: bool


class _Placeholder:
    """Takes the place of a state while a function is opened without records."""

    def __getattr__(self, name: str) -> Any:
        raise JobDefinitionError(
            f"{name}() was called on a state inside open().", action="Use states in process_element only."
        )


_BROADCAST = (
    "Keep the value itself in the function: each worker gets it once. Spark loads broadcast variables only for its own "
    "functions. For values that change, use broadcast state."
)


def discover_states(spec: OperatorSpec, copy: Callable[[Any], Any]) -> Discovered:
    """Finds the states that the function's `initialize_state()` and `open()` ask for.

    They are called on a copy, as they will be in the workers, and so is `close()`. A method that needs something only a
    worker has may fail here without harm; its states are then known with the first epoch.

    Args:
        spec: The operator.
        copy: Makes the copy of the function that a worker would get.

    Raises:
        JobDefinitionError: A state has an unsupported type, one name has two types or times to live, or the function
            cannot be sent to a worker.
    """
    schemas: dict[str, StateSchema] = {}

    def ask(descriptor: StateDescriptor) -> _Placeholder:
        schema = state_schema(spec.uid, spec.key, descriptor)
        check_same(schemas.setdefault(descriptor.name, schema), schema)
        return _Placeholder()

    try:
        function: Any = copy(spec.function)
    except (Exception, SystemExit, GeneratorExit) as error:
        raise JobDefinitionError(
            f"The function of operator {spec.uid!r} cannot be sent to a worker: {sentence(cause_line(error))}",
            action=_BROADCAST
            if "Broadcast variable" in str(error)
            else "Make connections, locks and files in open(), not in __init__.",
        ) from error
    keys, time = KeyContext(), OperatorTime()
    context = OperatorRuntimeContext(
        spec.uid,
        0,
        1,
        spec.max_parallelism,
        spec.parameters,
        ask if spec.key else None,
        keys=keys,
        time=time,
        timers=OperatorTimerService(time, keys),
    )
    operator_state = OperatorStateBackend(spec.uid, 0, 1)
    for declared in spec.broadcast:
        operator_state.get_broadcast_state(declared)
    life, all_known = LifeCycle(function, keys, lambda error, _: error), False
    try:
        life.begin(InitializationContext(None, operator_state, context, keyed=bool(spec.key)), context)
        all_known = getattr(function, "asks_in_open", True)
    except LakestateError:
        raise
    except (Exception, SystemExit, GeneratorExit):
        pass  # the states that it asked for until then are known
    finally:
        with suppress(Exception, SystemExit, GeneratorExit):
            life.close()
    states = (*schemas.values(), *operator_state.schemas)
    check_names(states)
    return Discovered(states, all_known)


__all__ = ["Discovered", "discover_states"]
