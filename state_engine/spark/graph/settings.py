"""The settings of a job, apart from its operators: checked once, and never changed."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.api.checkpoint_storage import MAX_DATA_INLINE_THRESHOLD, path_of
from state_engine.api.descriptors import check_name
from state_engine.api.state_backend import StateBackend
from state_engine.errors import JobDefinitionError
from state_engine.key_groups import check_parallelism
from state_engine.log.paths import SPARK
from state_engine.storage.roots import address, local_path

AggPhaseStrategy = Literal["AUTO", "ONE_PHASE", "TWO_PHASE"]

FENCE_ON_DISK_MS, FENCE_IN_BUCKET_MS = 1_000, 10_000


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """The arguments of `StreamJob`, which explains each; defaults are filled in.

    Attributes:
        max_parallelism_is_derived: Whether the author gave none, so that the job takes what its log has.

    Raises:
        JobDefinitionError: A name or number is out of bounds.
    """

    name: str
    root: str
    checkpoint_config: CheckpointConfig
    parallelism: int
    max_parallelism: int
    max_parallelism_is_derived: bool
    heartbeat_interval_ms: int
    fence_interval_ms: int
    parameters: Mapping[str, str]
    codec: str
    data_inline_threshold: int
    cache_bytes: int
    state_backend: StateBackend
    operator_chaining: bool
    agg_phase_strategy: AggPhaseStrategy
    preferred_locations: bool
    show_records: bool
    spark_directory: str

    def __post_init__(self) -> None:
        check_name(self.name, "a job")
        if self.codec not in ("zstd", "lz4", "none"):
            raise JobDefinitionError(f"There is no codec {self.codec!r}.", action="Use 'zstd', 'lz4' or 'none'.")
        if not 0 <= self.data_inline_threshold <= MAX_DATA_INLINE_THRESHOLD:
            raise JobDefinitionError(
                f"data_inline_threshold is {self.data_inline_threshold}.",
                action=f"Give bytes from 0, for none, to {MAX_DATA_INLINE_THRESHOLD} (1 MiB).",
            )
        for name in ("heartbeat_interval_ms", "fence_interval_ms"):
            if getattr(self, name) < 1:
                raise JobDefinitionError(f"{name} is below 1.", action="Give whole milliseconds above 0.")
        if self.agg_phase_strategy not in get_args(AggPhaseStrategy):
            raise JobDefinitionError(
                f"There is no agg_phase_strategy {self.agg_phase_strategy!r}.",
                action=f"Use one of {', '.join(get_args(AggPhaseStrategy))}.",
            )

    def as_logged(self, max_parallelism: int) -> "JobSettings":
        """Returns the settings with the number of key groups that the log has, unless the author gave one.

        Raises:
            JobDefinitionError: The parallelism is above that number.
        """
        if not self.max_parallelism_is_derived:
            return self
        check_parallelism(self.parallelism, max_parallelism)
        return replace(self, max_parallelism=max_parallelism)

    def rekeyed(self, max_parallelism: int) -> "JobSettings":
        """Returns the settings with the number of key groups to which a restore re-keys the state.

        Raises:
            JobDefinitionError: The number is not possible.
        """
        check_parallelism(min(self.parallelism, max_parallelism), max_parallelism)
        return replace(self, max_parallelism=max_parallelism)


def root_of(root: str | os.PathLike[str] | None, config: CheckpointConfig) -> str:
    """Returns the root that the job or its checkpoint storage names: a log and its folds are stored together.

    Raises:
        JobDefinitionError: None is named, or two different ones.
    """
    named = path_of(config.get_checkpoint_storage())
    given = named if root is None else root
    if given is None:
        raise JobDefinitionError(
            "The job has no state root.", action="Give root, or a checkpoint storage with a checkpoint_path."
        )
    chosen = address(given)
    if named is not None and address(named).rstrip("/") != chosen.rstrip("/"):
        raise JobDefinitionError(
            f"The state root is {chosen}, and the checkpoint storage is at {named}.",
            action="Give one of them, or the same path to both: checkpoints are stored below the state root.",
        )
    return chosen


def config_of(config: CheckpointConfig | None, interval_ms: int | None) -> CheckpointConfig:
    """Returns the configuration of checkpoints, with their interval.

    Raises:
        JobDefinitionError: Both a configuration and an interval are given.
    """
    if config is None:
        config = CheckpointConfig()
        return config if interval_ms is None else config.set_checkpoint_interval(interval_ms)
    if interval_ms is not None:
        raise JobDefinitionError(
            "checkpoint_interval_ms and checkpoint_config are given.",
            action="Set the interval with checkpoint_config.set_checkpoint_interval().",
        )
    return config


def fence_interval_of(root: str) -> int:
    """Returns the default of `fence_interval_ms`: longer where each read of storage costs money and time."""
    on_disk = local_path(root) is not None or root.startswith("memory://")
    return FENCE_ON_DISK_MS if on_disk else FENCE_IN_BUCKET_MS


def spark_directory_of(directory: str | None, root: str, name: str) -> str:
    """Returns the folder of the job's Spark files, on a local disk."""
    if directory:
        return os.path.join(directory, name)
    return os.path.join(local_path(root) or tempfile.gettempdir(), name, SPARK)


__all__ = [
    "AggPhaseStrategy",
    "JobSettings",
    "config_of",
    "fence_interval_of",
    "root_of",
    "spark_directory_of",
]
