"""When a stream whose process died is started again. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    """When a stream whose process died is started again."""


__all__ = ["RestartPolicy"]
