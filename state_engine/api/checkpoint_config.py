"""When checkpoints are taken, and what happens to them: PyFlink's `CheckpointConfig`, its names and defaults.

Every epoch is sealed, with or without checkpoints. These settings define how often sealed epochs are *published* to the
state tables, how long this may take, and what follows when it fails.
"""

import os
import warnings
from enum import Enum
from typing import TypeVar

from state_engine.api.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    checkpoint_storage_of,
)
from state_engine.api.durations import Duration
from state_engine.errors import JobDefinitionError

DISABLED = -1
"""The interval of a job that takes no periodic checkpoints."""

_Choice = TypeVar("_Choice", bound=Enum)
_UNLIMITED = (1 << 31) - 1
_ALIGNMENT = (
    "Unaligned checkpoints have no effect here: an epoch ends for all operators after the same record, so that no "
    "record waits for a barrier and none is in flight when state is sealed."
)


class CheckpointingMode(Enum):
    """Whether a record may be counted more than once after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """What happens to a job's checkpoints when it ends."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class CheckpointConfig:
    """Settings of a job's checkpoints; setters return the configuration, so that they can be chained.

    The defaults are Flink's, except one: checkpoints are kept on cancellation unless you request their deletion. A job
    without them would start with empty state. Semantics: Flink's `CheckpointConfig`.
    """

    DEFAULT_CHECKPOINT_INTERVAL = DISABLED
    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1
    DEFAULT_TOLERABLE_CHECKPOINT_FAILURE_NUMBER = 0
    MINIMAL_CHECKPOINT_TIME = 10

    def __init__(self) -> None:
        self._interval = self.DEFAULT_CHECKPOINT_INTERVAL
        self._mode = self.DEFAULT_MODE
        self._timeout = self.DEFAULT_TIMEOUT
        self._min_pause = self.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS
        self._max_concurrent = self.DEFAULT_MAX_CONCURRENT_CHECKPOINTS
        self._tolerable = self.DEFAULT_TOLERABLE_CHECKPOINT_FAILURE_NUMBER
        self._retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        self._storage: CheckpointStorage | None = None
        self._unaligned = False
        self._forced = False
        self._alignment_timeout = Duration.of_millis(0)
        self._warned = False

    # When -----------------------------------------------------------------------------------------------------------

    def is_checkpointing_enabled(self) -> bool:
        """Returns whether the job takes periodic checkpoints."""
        return self._interval > 0

    def get_checkpoint_interval(self) -> int:
        """Returns the time between two checkpoints in ms; -1 without periodic checkpoints."""
        return self._interval

    def set_checkpoint_interval(self, checkpoint_interval: int) -> "CheckpointConfig":
        """Sets how often an epoch carries a checkpoint: ms from the beginning of one checkpoint to that of the next.

        Raises:
            JobDefinitionError: It is below 10 ms.
        """
        self._interval = _at_least("checkpoint interval", checkpoint_interval, self.MINIMAL_CHECKPOINT_TIME)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Returns the least time between the end of one checkpoint and the beginning of the next, in ms."""
        return self._min_pause

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> "CheckpointConfig":
        """Sets the least time between the end of one checkpoint and the beginning of the next, in ms.

        A checkpoint on demand does not wait. With a pause above 0 at most one checkpoint is in progress at a time,
        whatever `set_max_concurrent_checkpoints` was given.

        Raises:
            JobDefinitionError: It is negative.
        """
        self._min_pause = _at_least("minimum pause", min_pause_between_checkpoints, 0)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """Returns the number of checkpoints that may be in progress at once."""
        return self._max_concurrent

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> "CheckpointConfig":
        """Sets the number of checkpoints that may be in progress at once.

        Raises:
            JobDefinitionError: It is below 1.
        """
        self._max_concurrent = _at_least("number of concurrent checkpoints", max_concurrent_checkpoints, 1)
        return self

    # How ------------------------------------------------------------------------------------------------------------

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Returns the mode."""
        return self._mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> "CheckpointConfig":
        """Sets whether output may be emitted before its epoch is sealed.

        State and Delta sinks are exactly once in both modes. With `AT_LEAST_ONCE`, functions (`ForeachEpochSink`) get
        an epoch's rows before it is sealed. If it is then not sealed, they get the rows again, with the same
        `EpochId.previous_epoch`.

        Raises:
            JobDefinitionError: This mode does not exist.
        """
        self._mode = _one_of(CheckpointingMode, checkpointing_mode)
        return self

    get_checkpointing_consistency_mode = get_checkpointing_mode
    set_checkpointing_consistency_mode = set_checkpointing_mode

    # Where ----------------------------------------------------------------------------------------------------------

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Returns the storage for the state of checkpoints; None for the default, Delta tables."""
        return self._storage

    def set_checkpoint_storage(self, storage: "CheckpointStorage | str") -> "CheckpointConfig":
        """Sets the storage for the state of checkpoints; every start may choose another one.

        Args:
            storage: An instance, or a name: `delta`, `filesystem`, `memory`.

        Raises:
            JobDefinitionError: This storage does not exist.
        """
        self._storage = checkpoint_storage_of(storage)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str | os.PathLike[str]) -> "CheckpointConfig":
        """Sets a `FileSystemCheckpointStorage` at this path, which is then the job's state root."""
        self._storage = FileSystemCheckpointStorage(checkpoint_path)
        return self

    # When it fails --------------------------------------------------------------------------------------------------

    def get_checkpoint_timeout(self) -> int:
        """Returns how long a checkpoint may take, in ms."""
        return self._timeout

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> "CheckpointConfig":
        """Sets how long a checkpoint may take, in ms from the beginning of its epoch; then it expires, and has failed.

        Raises:
            JobDefinitionError: It is below 10 ms.
        """
        self._timeout = _at_least("checkpoint timeout", checkpoint_timeout, self.MINIMAL_CHECKPOINT_TIME)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Returns the number of consecutive checkpoints that may fail without failing the job."""
        return self._tolerable

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> "CheckpointConfig":
        """Sets the number of consecutive checkpoints that may fail without failing the job.

        Raises:
            JobDefinitionError: It is negative.
        """
        self._tolerable = _at_least("number of tolerable failures", tolerable_checkpoint_failure_number, 0)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Returns whether the first failed checkpoint fails the job."""
        return self._tolerable == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> "CheckpointConfig":
        """If true, tolerates no failed checkpoint; if false, tolerates any number."""
        self._tolerable = 0 if fail_on_checkpointing_errors else _UNLIMITED
        return self

    # Afterwards -----------------------------------------------------------------------------------------------------

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Returns whether checkpoints may outlive the job."""
        return self._retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Returns what happens to checkpoints when the job ends."""
        return self._retention

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> "CheckpointConfig":
        """Sets what happens to checkpoints when the job ends.

        Raises:
            JobDefinitionError: This choice does not exist.
        """
        self._retention = _one_of(ExternalizedCheckpointRetention, retention_mode)
        return self

    # Without effect -------------------------------------------------------------------------------------------------

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Returns the value that was passed to `enable_unaligned_checkpoints`."""
        return self._unaligned

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> "CheckpointConfig":
        """Has no effect, and warns of it once."""
        self._unaligned = enabled
        return self._without_effect() if enabled else self

    def disable_unaligned_checkpoints(self) -> "CheckpointConfig":
        """Undoes `enable_unaligned_checkpoints`."""
        self._unaligned = False
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Returns the value that was passed to `set_aligned_checkpoint_timeout`."""
        return self._alignment_timeout

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> "CheckpointConfig":
        """Has no effect, and warns of it once."""
        self._alignment_timeout = alignment_timeout
        return self._without_effect()

    get_alignment_timeout = get_aligned_checkpoint_timeout
    set_alignment_timeout = set_aligned_checkpoint_timeout

    def is_force_unaligned_checkpoints(self) -> bool:
        """Returns the value that was passed to `set_force_unaligned_checkpoints`."""
        return self._forced

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> "CheckpointConfig":
        """Has no effect, and warns of it once."""
        self._forced = force_unaligned_checkpoints
        return self._without_effect() if force_unaligned_checkpoints else self

    def _without_effect(self) -> "CheckpointConfig":
        if not self._warned:
            self._warned = True
            warnings.warn(_ALIGNMENT, stacklevel=3)
        return self


def _one_of(choices: type[_Choice], given: object) -> _Choice:
    try:
        return choices(given)
    except ValueError as error:
        names = ", ".join(f"{choices.__name__}.{name}" for name in choices.__members__)
        raise JobDefinitionError(f"{given!r} is no {choices.__name__}.", action=f"Give one of {names}.") from error


def _at_least(what: str, given: int, least: int) -> int:
    number: object = given
    if not isinstance(number, int) or isinstance(number, bool) or given < least:
        raise JobDefinitionError(f"The {what} is {given!r}.", action=f"Give a whole number of at least {least}.")
    return given


__all__ = ["DISABLED", "CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]
