"""Applies Flink's checkpoint settings, given by key, to a `CheckpointConfig`."""

from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from state_engine.api.checkpoint_config import CheckpointConfig, CheckpointingMode, ExternalizedCheckpointRetention
from state_engine.api.checkpoint_storage import DATA_INLINE_THRESHOLD, FileSystemCheckpointStorage
from state_engine.api.state_backend import parse_size
from state_engine.errors import JobDefinitionError
from state_engine.flink.configuration import Configuration, first_of, milliseconds

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
_STORAGE = (f"{_PREFIX}storage", "state.checkpoint-storage")
_THRESHOLD = (f"{_PREFIX}data-inline-threshold", "state.storage.fs.memory-threshold")
_BUFFER = (f"{_PREFIX}write-buffer-size", "state.storage.fs.write-buffer-size")

KNOWN = frozenset(
    {*(f"{_PREFIX}{name}" for name in (*_TIMES, *_NUMBERS, *_MODE, _RETENTION)), *_STORAGE, *_THRESHOLD, *_BUFFER}
)
"""Keys that have an effect."""


def configure(config: CheckpointConfig, settings: Configuration) -> None:
    """Applies the settings that are set.

    Raises:
        JobDefinitionError: A setting is no length of time, no number, no size or no choice, or is out of bounds.
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
    storage = first_of(settings, _STORAGE)
    if storage == "filesystem":
        threshold, buffer = first_of(settings, _THRESHOLD), first_of(settings, _BUFFER)
        config.set_checkpoint_storage(
            FileSystemCheckpointStorage(
                file_state_size_threshold=-1 if threshold is None else parse_size(threshold),
                write_buffer_size=-1 if buffer is None else parse_size(buffer),
            )
        )
    elif storage is not None:
        config.set_checkpoint_storage(storage)


def data_inline_threshold(settings: Configuration) -> int:
    """Returns the largest size in bytes of changes that a subtask inlines in the manifest, by Flink's threshold.

    Raises:
        JobDefinitionError: The setting is no size.
    """
    given = first_of(settings, _THRESHOLD)
    return DATA_INLINE_THRESHOLD if given is None else parse_size(given)


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


__all__ = ["KNOWN", "configure", "data_inline_threshold"]
