"""What a function will ask for, found by opening a copy of it when the job is built."""

from collections.abc import Callable
from typing import Any

from state_engine.api.descriptors import StateDescriptor
from state_engine.backends.keys import KeyContext
from state_engine.backends.schemas import check_same, state_schema
from state_engine.backends.time import OperatorTime
from state_engine.errors import JobDefinitionError, LakestateError
from state_engine.log.records import StateSchema
from state_engine.runtime.contexts import OperatorRuntimeContext, OperatorTimerService
from state_engine.runtime.spec import OperatorSpec


class _Placeholder:
    """Stands for a state while a function is opened without records."""

    def __getattr__(self, name: str) -> Any:
        raise JobDefinitionError(
            f"{name}() was called on a state inside open().", action="Use states in process_element only."
        )


def discover_states(spec: OperatorSpec, copy: Callable[[Any], Any]) -> tuple[StateSchema, ...]:
    """Returns the schemas of the states that the function's `open()` asks for.

    The function is opened on a copy, as it will be in the workers; an `open()` that needs what only a worker has may
    fail here without harm, and its states are then known with the first epoch.

    Args:
        spec: The operator.
        copy: Makes the copy of the function that a worker would get.

    Raises:
        JobDefinitionError: A state has an unsupported type, or one name has two types or times to live, or the function
            cannot be sent to a worker.
    """
    found: dict[str, StateSchema] = {}

    def ask(descriptor: StateDescriptor) -> _Placeholder:
        schema = state_schema(spec.uid, spec.key, descriptor)
        check_same(found.setdefault(descriptor.name, schema), schema)
        return _Placeholder()

    try:
        function: Any = copy(spec.function)
    except Exception as error:
        raise JobDefinitionError(
            f"The function of operator {spec.uid!r} cannot be sent to a worker: {error}.",
            action="Make connections, locks and files in open(), not in __init__.",
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
    try:
        function.open(context)
        function.close()
    except LakestateError:
        raise
    except Exception:
        return tuple(found.values())
    return tuple(found.values())


__all__ = ["discover_states"]
