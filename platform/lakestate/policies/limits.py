"""How far a stream may go before a check says so. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CheckLimits:
    """Limits of the asset checks of a stream."""


__all__ = ["CheckLimits"]
