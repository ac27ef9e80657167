"""Loads a code location as Dagster's own commands do, and executes the run that takes a savepoint in this process.

Dagster has no public function for loading, so that of its commands is used. `dagster asset materialize` takes only
partitions that exist, and only the UI and GraphQL add them.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import dagster as dg
from dagster._cli.utils import get_possibly_temporary_instance_for_cli
from dagster._cli.workspace.cli_target import (
    get_repository_python_origin_from_cli_opts,
    workspace_opts_to_load_target,
)
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
from dagster._utils.hosted_user_process import recon_job_from_origin, recon_repository_from_origin
from dagster_shared.cli import PythonPointerOpts, WorkspaceOpts

from lakestate.assets.names import JOB_TAG, partitions_name, run_tags, stream_pool
from lakestate.assets.savepoint import SavepointConfig
from lakestate.errors import CodeLocationError, SavepointRunError
from lakestate.operate.unfinished_runs import UNFINISHED

_SUFFIX = partitions_name("")
_TARGET = "Name it with -m MODULE or -f FILE, or run this in the folder of its workspace.yaml."


class Target(NamedTuple):
    """Where the code location is, in the terms of Dagster's commands.

    Attributes:
        python_file: A file with definitions.
        module_name: A module with definitions.
        working_directory: The folder that imports begin in; by default the current one.
        attribute: The variable with the definitions; by default the only one.
        workspace: A `workspace.yaml`. Without any of these: `pyproject.toml` or `workspace.yaml` of the current folder.
    """

    python_file: str | None = None
    module_name: str | None = None
    working_directory: str | None = None
    attribute: str | None = None
    workspace: str | None = None


class TakenSavepoint(NamedTuple):
    """What the run recorded: its id, the partition, the metadata of the savepoint, and the warnings in its log."""

    run_id: str
    partition: str
    metadata: dict[str, Any]
    warnings: tuple[str, ...]


class _Found(NamedTuple):
    origin: RepositoryPythonOrigin
    repository: dg.RepositoryDefinition
    key: dg.AssetKey


def take_in_dagster(job: str, label: str, config: SavepointConfig, target: Target) -> TakenSavepoint:
    """Adds a partition of the savepoints of a job, unless it exists, and materialises it in this process.

    Args:
        job: Name of the job.
        label: The partition's key, which becomes the savepoint's label.
        config: Which savepoint.
        target: The code location.

    Raises:
        CodeLocationError: It cannot be loaded, or has no such job; or there is no Dagster instance.
        SavepointRunError: Another run is at work on the stream, or the run failed.
    """
    with _instance() as instance:
        found = _find(job, target)
        if (other := _other_run(instance, job, found.repository)) is not None:
            raise SavepointRunError(
                f"Run {other} is at work on {job}, or is going to be, and only one run at a time is.",
                action="Wait until it has ended, and repeat the command.",
            )
        instance.add_dynamic_partitions(partitions_name(job), [label])
        definition = found.repository.get_implicit_job_def_for_assets([found.key])
        assert definition is not None
        result = dg.execute_job(
            recon_job_from_origin(JobPythonOrigin(definition.name, repository_origin=found.origin)),
            instance,
            run_config=_run_config(found.key, config),
            tags={
                **run_tags(job),
                **definition.get_tags_for_partition_key(label, selected_asset_keys=[found.key]),
            },
            asset_selection=[found.key],
        )
        if not result.success:
            raise _failed(instance, result.run_id, label)
        (event,) = result.asset_materializations_for_node(found.key.to_python_identifier())
        metadata = {name: value.value for name, value in event.metadata.items()}
        warnings = [one.user_message for one in instance.all_logs(result.run_id) if one.level == logging.WARNING]
        return TakenSavepoint(result.run_id, label, metadata, tuple(warnings))


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    """Yields the instance of DAGSTER_HOME, or of the `dagster.yaml` in the current folder, as `dagster dev` uses it."""
    if not os.environ.get("DAGSTER_HOME") and not Path("dagster.yaml").exists():
        raise CodeLocationError(
            "There is no Dagster instance: DAGSTER_HOME is not set, and the current folder has no dagster.yaml.",
            action="Set DAGSTER_HOME to the folder that the web server and the daemon use.",
        )
    with ExitStack() as stack:
        try:
            instance = stack.enter_context(get_possibly_temporary_instance_for_cli("lakestate dagster savepoint"))
        except dg.DagsterError as error:
            raise CodeLocationError(str(error), action="Set DAGSTER_HOME to an existing folder.") from error
        yield instance


def _find(job: str, target: Target) -> _Found:
    """Returns the repository that has the savepoints of the job, and the key of that asset.

    The asset is found by its partitions, since a project may translate keys.
    """
    jobs: set[str] = set()
    for pointer in _pointers(target):
        try:
            origin = get_repository_python_origin_from_cli_opts(pointer)
            repository = recon_repository_from_origin(origin).get_definition()
        except Exception as error:  # a user's module may raise anything
            raise CodeLocationError(f"The code location cannot be loaded: {error}", action=_TARGET) from error
        for node in repository.asset_graph.asset_nodes:
            name = getattr(node.partitions_def, "name", None)
            if isinstance(node.partitions_def, dg.DynamicPartitionsDefinition) and node.is_executable:
                if name == partitions_name(job):
                    return _Found(origin, repository, node.key)
                if name is not None and name.endswith(_SUFFIX):
                    jobs.add(name.removesuffix(_SUFFIX))
    raise CodeLocationError(
        f"The code location has no savepoints of a job {job!r}.",
        action=f"Its jobs are {', '.join(sorted(jobs))}." if jobs else _TARGET,
    )


def _pointers(target: Target) -> Sequence[PythonPointerOpts]:
    """Returns the targets of the code location, or of all code locations of a workspace that are Python files."""
    if target.python_file is not None or target.module_name is not None:
        given = target._asdict()
        del given["workspace"]
        return [PythonPointerOpts(**given)]
    try:
        opts = WorkspaceOpts(workspace=[target.workspace] if target.workspace is not None else None)
        origins = workspace_opts_to_load_target(opts).create_origins()
    except (click.UsageError, dg.DagsterError, OSError) as error:
        raise CodeLocationError(f"There is no code location: {error}", action=_TARGET) from error
    local = [one.loadable_target_origin for one in origins if not isinstance(one, GrpcServerCodeLocationOrigin)]
    if not local:
        raise CodeLocationError(
            "The workspace has only code servers, and this command executes the run itself.",
            action="Name the code with -m MODULE or -f FILE.",
        )
    return [
        PythonPointerOpts(
            python_file=one.python_file,
            module_name=one.module_name,
            package_name=one.package_name,
            working_directory=one.working_directory,
            attribute=one.attribute,
            autoload_defs_module_name=one.autoload_defs_module_name,
        )
        for one in local
    ]


def _other_run(instance: dg.DagsterInstance, job: str, repository: dg.RepositoryDefinition) -> str | None:
    """Returns the id of a run that works on the stream: a run of this process does not wait for the stream's pool."""
    graph = repository.asset_graph
    keys = {node.key for node in graph.asset_nodes if stream_pool(job) in (node.pools or ())}
    for run in instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED))):
        if run.tags.get(JOB_TAG) == job or keys & set(run.asset_selection or ()):
            return run.run_id
    return None


def _run_config(key: dg.AssetKey, config: SavepointConfig) -> dict[str, Any]:
    return {
        "ops": {key.to_python_identifier(): {"config": config.model_dump(exclude_none=True)}},
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }


def _failed(instance: dg.DagsterInstance, run_id: str, label: str) -> SavepointRunError:
    """Returns the error for a run that failed, with the reason and the remedy that its failure has."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    data = records[0].event_log_entry.get_dagster_event().step_failure_data if records else None
    failure = data.user_failure_data if data is not None else None
    remedy = failure.metadata.get("action") if failure is not None else None
    why = failure.description if failure is not None else None
    return SavepointRunError(
        f"Run {run_id} for savepoint {label!r} failed: {why or 'its log has the reason'}",
        action=str(remedy.value) if remedy is not None else "Look at the log of the run in the UI, and run it again.",
    )


__all__ = ["TakenSavepoint", "Target", "take_in_dagster"]
