"""A failure as data: its form in the JSON of REST and of the command line."""

import msgspec

from state_engine.causes import LONGEST_CAUSE, LONGEST_REPORT, message_of
from state_engine.errors import LakestateError
from state_engine.text import shorten


class FailureFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What failed, in typed fields; empty ones are left out of the JSON.

    Attributes:
        type: Class of the error, such as `SavepointError`.
        message: What happened, without the action; at most 8,000 characters.
        action: What to do about it.
        operator: Uid of the operator that failed.
        key: The key that it was processing, as text.
    """

    type: str
    message: str
    action: str = ""
    operator: str = ""
    key: str = ""


def facts_of(error: BaseException) -> FailureFacts:
    """Returns the facts of an exception of any type and message."""
    named = error if isinstance(error, LakestateError) else LakestateError("")
    return FailureFacts(
        type=type(error).__name__,
        message=shorten(message_of(error), LONGEST_REPORT),
        action=shorten(named.action, LONGEST_CAUSE),
        operator=named.operator,
        key=named.key,
    )


__all__ = ["FailureFacts", "facts_of"]
