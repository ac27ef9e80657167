"""How a run that was refused says so: the one place where errors of the engine become failures of Dagster."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from state_engine.causes import LONGEST_REPORT
from state_engine.errors import LakestateError
from state_engine.text import plain, shorten

_NO_ACTION = "Look at the log of the run."


@contextmanager
def named_failures() -> Iterator[None]:
    """Ends a run with the name, the message and the remedy of an error of Lakestate, in place of a traceback alone."""
    try:
        yield
    except LakestateError as error:
        raise failure_of(error) from error


def failure_of(error: LakestateError) -> dg.Failure:
    """Returns the failure that says what an error says; its metadata have the remedy as `action`."""
    return refused(f"{type(error).__name__}: {error.message}", action=error.action, allow_retries=True)


def refused(why: str, *, action: str = "", allow_retries: bool = False) -> dg.Failure:
    """Returns the failure of a run that is not begun.

    Args:
        why: What a person reads first.
        action: What to do now.
        allow_retries: Whether the same run may succeed later.
    """
    told = shorten(plain(why), LONGEST_REPORT)
    return dg.Failure(told, metadata={"action": action or _NO_ACTION}, allow_retries=allow_retries)


__all__ = ["failure_of", "named_failures", "refused"]
