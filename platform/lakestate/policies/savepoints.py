"""When savepoints are taken by themselves, and how close to each other. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SavepointPolicy:
    """When savepoints of a stream are taken by themselves, and how close to each other."""


__all__ = ["SavepointPolicy"]
