"""Flink's settings of checkpoints, by key, as a `CheckpointConfig` has them."""

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from state_engine.api.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from state_engine.errors import JobDefinitionError
from state_engine.flink.configuration import Configuration, milliseconds

_Choice = TypeVar("_Choice", bound=Enum)

_PREFIX = "execution.checkpointing."
_TIMES: dict[str, Callable[[CheckpointConfig, int], CheckpointConfig]] = {
    "interval": CheckpointConfig.set_checkpoint_interval,
    "min-pause": CheckpointConfig.set_min_pause_between_checkpoints,
    "timeout": CheckpointConfig.set_checkpoint_timeout,
}
_NUMBERS: dict[str, Callable[[CheckpointConfig, int], CheckpointConfig]] = {
    "max-concurrent-checkpoints": CheckpointConfig.set_max_concurrent_checkpoints,
    "tolerable-failed-checkpoints": CheckpointConfig.set_tolerable_checkpoint_failure_number,
}
_MODE = ("mode", "checkpointing-mode")
_RETENTION = "externalized-checkpoint-retention"

KNOWN = frozenset(f"{_PREFIX}{name}" for name in (*_TIMES, *_NUMBERS, *_MODE, _RETENTION))
"""Keys that mean something here."""


def configure(config: CheckpointConfig, settings: Configuration) -> None:
    """Takes over the settings that are there.

    Raises:
        JobDefinitionError: One is no length of time, no number or no choice, or out of bounds.
    """
    for name, set_time in _TIMES.items():
        length = milliseconds(settings, f"{_PREFIX}{name}")
        if length is not None:
            set_time(config, length)
    for name, set_number in _NUMBERS.items():
        key = f"{_PREFIX}{name}"
        if settings.contains_key(key):
            set_number(config, _number(settings, key))
    for name in _MODE:
        key = f"{_PREFIX}{name}"
        if settings.contains_key(key):
            config.set_checkpointing_mode(_choice(CheckpointingMode, settings, key))
    key = f"{_PREFIX}{_RETENTION}"
    if settings.contains_key(key):
        config.set_externalized_checkpoint_retention(_choice(ExternalizedCheckpointRetention, settings, key))


def _number(settings: Configuration, key: str) -> int:
    try:
        return settings.get_integer(key, 0)
    except ValueError as error:
        given = settings.get_string(key, "")
        raise JobDefinitionError(f"{key} is {given!r}.", action="Give a whole number.") from error


def _choice(choices: type[_Choice], settings: Configuration, key: str) -> _Choice:
    given = str(settings.get_string(key, "")).strip().upper().replace("-", "_")
    if given not in choices.__members__:
        names = ", ".join(choices.__members__)
        raise JobDefinitionError(f"{key} is {given!r}.", action=f"Give one of {names}.")
    return choices[given]


__all__ = ["KNOWN", "configure"]
