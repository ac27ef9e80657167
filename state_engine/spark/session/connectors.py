"""Which of Spark's connectors a job needs: its factory says so, since the session is made before the job."""

from collections.abc import Callable
from typing import Any, TypeVar

_ATTRIBUTE = "lakestate_connectors"

FactoryT = TypeVar("FactoryT", bound=Callable[..., Any])


def needs_connectors(*names: str) -> Callable[[FactoryT], FactoryT]:
    """Marks the factory of a registered job: its session gets the jars of these connectors.

        @needs_connectors("kafka")
        def build(spark, root, options): ...

    Args:
        names: As in `local_session(connectors=[…])`.
    """

    def marked(factory: FactoryT) -> FactoryT:
        setattr(factory, _ATTRIBUTE, names)
        return factory

    return marked


def connectors_of(factory: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the connectors that a factory needs."""
    return tuple(getattr(factory, _ATTRIBUTE, ()))


__all__ = ["connectors_of", "needs_connectors"]
