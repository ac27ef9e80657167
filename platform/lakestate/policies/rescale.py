"""When a stream gets another parallelism. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RescalePolicy:
    """When a stream gets another parallelism."""


__all__ = ["RescalePolicy"]
