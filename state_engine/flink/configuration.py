"""`Configuration`, with PyFlink's name: settings of an environment by Flink's keys."""

import re
import warnings
from enum import Enum
from typing import Any

from state_engine.errors import JobDefinitionError
from state_engine.spark.graph.uids import authors_level


class RuntimeExecutionMode(Enum):
    """When results come: as records come, or when all input was read. Only `STREAMING` is supported."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


class Configuration:
    """Settings by key, with PyFlink's `set_…` and `get_…` for strings, integers, floats and booleans."""

    def __init__(self, other: "Configuration | None" = None) -> None:
        self._settings: dict[str, Any] = {} if other is None else other.to_dict()

    @classmethod
    def from_dict(cls, map: dict[str, Any]) -> "Configuration":
        """Returns the settings of a dict."""
        made = cls()
        made._settings.update(map)
        return made

    def set_string(self, key: str, value: str) -> "Configuration":
        """Sets a key."""
        self._settings[key] = value
        return self

    set_integer = set_float = set_boolean = set_string

    def get_string(self, key: str, default_value: Any) -> Any:
        """Returns a setting, or the default."""
        return str(self._settings[key]) if key in self._settings else default_value

    def get_integer(self, key: str, default_value: int) -> int:
        """Returns a whole number, or the default."""
        return int(self._settings.get(key, default_value))

    def get_float(self, key: str, default_value: float) -> float:
        """Returns a number, or the default."""
        return float(self._settings.get(key, default_value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Returns whether a setting is true, or the default."""
        return str(self._settings.get(key, default_value)).lower() == "true"

    def contains_key(self, key: str) -> bool:
        """Returns whether a key is set."""
        return key in self._settings

    def key_set(self) -> set[str]:
        """Returns the keys that are set."""
        return set(self._settings)

    def remove_config(self, key: str) -> bool:
        """Removes a setting, and returns whether it was set."""
        return self._settings.pop(key, None) is not None

    def add_all(self, other: "Configuration", prefix: str | None = None) -> "Configuration":
        """Adds the settings of another configuration, with `prefix` before their keys."""
        self._settings.update({f"{prefix or ''}{key}": value for key, value in other.to_dict().items()})
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Adds all settings to a dict."""
        target_dict.update(self._settings)

    def to_dict(self) -> dict[str, Any]:
        """Returns all settings."""
        return dict(self._settings)


ROOT = ("execution.checkpointing.dir", "state.checkpoints.dir")
PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
NAME = "pipeline.name"
BACKEND = "state.backend.type"
RESTORE = ("execution.state-recovery.path", "execution.savepoint.path")
NON_RESTORED = (
    "execution.state-recovery.ignore-unclaimed-state",
    "execution.savepoint.ignore-unclaimed-state",
)
CLAIM_MODE = ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode")
SHOW_RECORDS = "lakestate.show-records"
"""The job's `show_records`; Flink has no such key."""
KNOWN = frozenset(
    {SHOW_RECORDS, *ROOT, PARALLELISM, MAX_PARALLELISM, NAME, BACKEND, *RESTORE, *NON_RESTORED, *CLAIM_MODE}
)
"""Keys that have an effect, besides those of `checkpointing`."""

_UNITS = {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def first_of(configuration: Configuration, keys: tuple[str, ...]) -> str | None:
    """Returns the setting of the first of several keys that is set; None if none is."""
    return next((str(configuration.get_string(key, "")) for key in keys if configuration.contains_key(key)), None)


def milliseconds(configuration: Configuration, key: str) -> int | None:
    """Returns a length of time such as `10 s` in ms; a plain number is in ms. None if it is not set.

    Raises:
        JobDefinitionError: The setting is no length of time.
    """
    if not configuration.contains_key(key):
        return None
    given = str(configuration.get_string(key, ""))
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", given.strip())
    unit = match.group(2) if match else None
    if match is None or (unit and unit not in _UNITS):
        raise JobDefinitionError(f"{key} is {given!r}.", action="Give a length of time, such as '500 ms' or '10 s'.")
    return int(match.group(1)) * _UNITS[unit or "ms"]


def backend(configuration: Configuration) -> str:
    """Returns the state backend, by the engine's name."""
    given = str(configuration.get_string(BACKEND, "hashmap"))
    return "heap" if given in ("hashmap", "filesystem", "jobmanager") else given


def warn_of_unknown(configuration: Configuration, known: frozenset[str]) -> None:
    """Warns of settings that have no effect."""
    unknown = sorted(configuration.key_set() - known)
    if unknown:
        warnings.warn(f"These settings have no effect here: {', '.join(unknown)}.", stacklevel=authors_level())


__all__ = [
    "Configuration",
    "RuntimeExecutionMode",
    "backend",
    "first_of",
    "milliseconds",
    "warn_of_unknown",
]
