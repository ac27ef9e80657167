"""Settings of an environment: Flink's keys, and what `build_job` makes of them."""

import pytest

from state_engine import flink
from state_engine.api import EmbeddedRocksDBStateBackend
from state_engine.errors import JobDefinitionError
from state_engine.flink import Configuration, StreamExecutionEnvironment
from state_engine.spark.graph.dry import DrySession


def test_settings() -> None:
    config = Configuration()
    config.set_string("state.checkpoints.dir", "file:///tmp/state")
    config.set_string("execution.checkpointing.interval", "10 s").set_integer("parallelism.default", "3")
    config.set_string("state.backend.type", "hashmap").set_string("pipeline.name", "my job, 2nd")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    assert (env.get_parallelism(), env.get_max_parallelism(), env.get_checkpoint_interval()) == (3, -1, 10_000)
    assert env.get_checkpointing_mode() is flink.CheckpointingMode.EXACTLY_ONCE
    env.enable_checkpointing(500).set_max_parallelism(64).set_state_backend(EmbeddedRocksDBStateBackend())
    env._session = DrySession()
    job = env.build_job()
    assert (job.name, job.root, job.settings.parallelism, job.settings.max_parallelism) == (
        "my-job-2nd",
        "/tmp/state",
        3,
        64,
    )
    assert job.settings.checkpoint_config is env.get_checkpoint_config()
    assert job.settings.checkpoint_config.get_checkpoint_interval() == 500
    assert isinstance(job.settings.state_backend, EmbeddedRocksDBStateBackend)


def test_settings_of_checkpoints() -> None:
    config = Configuration()
    for key, value in {
        "mode": "at-least-once",
        "timeout": "2 min",
        "min-pause": "300",
        "max-concurrent-checkpoints": "4",
        "tolerable-failed-checkpoints": "5",
        "externalized-checkpoint-retention": "DELETE_ON_CANCELLATION",
    }.items():
        config.set_string(f"execution.checkpointing.{key}", value)
    result = StreamExecutionEnvironment.get_execution_environment(config).get_checkpoint_config()
    assert result.get_checkpointing_mode() is flink.CheckpointingMode.AT_LEAST_ONCE
    assert (result.get_checkpoint_timeout(), result.get_min_pause_between_checkpoints()) == (120_000, 300)
    assert (result.get_max_concurrent_checkpoints(), result.get_tolerable_checkpoint_failure_number()) == (4, 5)
    retention = flink.ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    assert result.get_externalized_checkpoint_retention() is retention


@pytest.mark.parametrize(
    ("settings", "storage"),
    [
        ({}, "None"),
        ({"execution.checkpointing.storage": "jobmanager"}, "JobManagerCheckpointStorage(None, 5242880)"),
        ({"state.checkpoint-storage": "filesystem"}, "FileSystemCheckpointStorage(None, 20480)"),
        (
            {"execution.checkpointing.storage": "filesystem", "execution.checkpointing.data-inline-threshold": "2kb"},
            "FileSystemCheckpointStorage(None, 2048)",
        ),
        ({"execution.checkpointing.storage": "delta"}, "DeltaCheckpointStorage()"),
    ],
)
def test_settings_of_checkpoint_storages(settings: dict[str, str], storage: str) -> None:
    config = Configuration.from_dict({**settings, "execution.checkpointing.write-buffer-size": "64 kb"})
    found = StreamExecutionEnvironment.get_execution_environment(config).get_checkpoint_config()
    chosen = found.get_checkpoint_storage()
    assert repr(chosen) == storage
    if isinstance(chosen, flink.FileSystemCheckpointStorage):
        assert chosen.get_write_buffer_size() == 64 * 1024


def test_the_path_of_a_checkpoint_storage_is_the_state_root() -> None:
    env = StreamExecutionEnvironment(session=DrySession())
    env.get_checkpoint_config().set_checkpoint_storage_dir("file:///tmp/checkpoints")
    assert env.build_job("a").root == "/tmp/checkpoints"
    env.set_state_root("/tmp/elsewhere")
    with pytest.raises(JobDefinitionError, match="state root is /tmp/elsewhere, and the checkpoint storage is at"):
        env.build_job("a")
    env.set_state_root("/tmp/checkpoints/")
    assert env.build_job("a").root == "/tmp/checkpoints"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("storage", "tape"),
        ("mode", "twice"),
        ("max-concurrent-checkpoints", "many"),
        ("max-concurrent-checkpoints", "0"),
        ("externalized-checkpoint-retention", "SOMETIMES"),
    ],
)
def test_settings_of_checkpoints_that_make_no_sense(key: str, value: str) -> None:
    config = Configuration()
    config.set_string(f"execution.checkpointing.{key}", value)
    with pytest.raises(JobDefinitionError, match="Give"):
        StreamExecutionEnvironment.get_execution_environment(config)


def test_settings_that_mean_nothing_are_said() -> None:
    config = Configuration()
    config.set_string("taskmanager.numberOfTaskSlots", "4")
    with pytest.warns(UserWarning, match="taskmanager.numberOfTaskSlots"):
        StreamExecutionEnvironment.get_execution_environment(config)
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "soon")
    with pytest.raises(JobDefinitionError, match="'soon'"):
        StreamExecutionEnvironment.get_execution_environment(config)


@pytest.mark.parametrize(
    ("settings", "threshold"),
    [
        ({}, 20 * 1024),
        ({"execution.checkpointing.data-inline-threshold": "2kb"}, 2048),
        ({"state.storage.fs.memory-threshold": "1mb", "execution.checkpointing.storage": "jobmanager"}, 1 << 20),
        ({"execution.checkpointing.data-inline-threshold": "0"}, 0),
    ],
)
def test_the_threshold_of_data_in_line_is_the_jobs_too(settings: dict[str, str], threshold: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env._session = DrySession()
    env.set_state_root("/tmp/inlined")
    assert env.build_job("inlined").settings.data_inline_threshold == threshold


@pytest.mark.parametrize(("settings", "shown"), [({}, True), ({"lakestate.show-records": "false"}, False)])
def test_whether_failures_show_records_is_a_setting(settings: dict[str, str], shown: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env._session = DrySession()
    env.set_state_root("/tmp/shown")
    assert env.build_job("shown").settings.show_records is shown
