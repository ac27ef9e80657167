"""`CheckpointConfig`: Flink's defaults, its setters and getters. What each setter does: tests/checkpoint."""

import warnings
from typing import Any

import pytest

from state_engine.api import CheckpointConfig, CheckpointingMode, Duration, ExternalizedCheckpointRetention

DEFAULTS = {
    # getter: Flink 2.3 (CheckpointConfig, CheckpointingOptions)
    "is_checkpointing_enabled": False,
    "get_checkpoint_interval": -1,
    "get_checkpointing_mode": CheckpointingMode.EXACTLY_ONCE,
    "get_checkpoint_timeout": 600_000,
    "get_min_pause_between_checkpoints": 0,
    "get_max_concurrent_checkpoints": 1,
    "get_tolerable_checkpoint_failure_number": 0,
    "is_fail_on_checkpointing_errors": True,
    "is_unaligned_checkpoints_enabled": False,
    "is_force_unaligned_checkpoints": False,
    "get_aligned_checkpoint_timeout": Duration.of_millis(0),
}
OURS = {
    # Flink: NO_EXTERNALIZED_CHECKPOINTS; a job without its checkpoints would begin anew
    "get_externalized_checkpoint_retention": ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    "is_externalized_checkpoints_enabled": True,
}


@pytest.mark.parametrize(("getter", "value"), [*DEFAULTS.items(), *OURS.items()])
def test_defaults(getter: str, value: object) -> None:
    assert getattr(CheckpointConfig(), getter)() == value


SET: list[tuple[str, str, Any]] = [
    ("set_checkpoint_interval", "get_checkpoint_interval", 500),
    ("set_checkpoint_timeout", "get_checkpoint_timeout", 10),
    ("set_checkpointing_mode", "get_checkpointing_mode", CheckpointingMode.AT_LEAST_ONCE),
    ("set_min_pause_between_checkpoints", "get_min_pause_between_checkpoints", 7),
    ("set_max_concurrent_checkpoints", "get_max_concurrent_checkpoints", 3),
    ("set_tolerable_checkpoint_failure_number", "get_tolerable_checkpoint_failure_number", 2),
    (
        "set_externalized_checkpoint_retention",
        "get_externalized_checkpoint_retention",
        ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,
    ),
]


@pytest.mark.parametrize(("setter", "getter", "value"), SET)
def test_setters_can_be_chained_and_are_read_back(setter: str, getter: str, value: object) -> None:
    config = CheckpointConfig()
    assert getattr(config, setter)(value) is config
    assert getattr(config, getter)() == value


def test_the_mode_has_two_names() -> None:
    config = CheckpointConfig().set_checkpointing_consistency_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_without_externalized_checkpoints_none_outlives_the_job() -> None:
    config = CheckpointConfig()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    assert not config.is_externalized_checkpoints_enabled()


def test_settings_of_unaligned_checkpoints_are_kept_and_warned_of_once() -> None:
    config = CheckpointConfig()
    with pytest.warns(UserWarning, match="no effect"):
        config.enable_unaligned_checkpoints()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.set_force_unaligned_checkpoints().set_aligned_checkpoint_timeout(Duration.of_seconds(1))
        config.set_alignment_timeout(Duration.of_seconds(2))
    assert config.is_unaligned_checkpoints_enabled()
    assert config.is_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == config.get_aligned_checkpoint_timeout() == Duration.of_seconds(2)
    assert not config.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()


def test_to_leave_unaligned_checkpoints_off_is_no_reason_to_warn() -> None:
    config = CheckpointConfig().enable_unaligned_checkpoints(False).set_force_unaligned_checkpoints(False)
    assert not config.is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
