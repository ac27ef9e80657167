"""All streams under one root as a Dagster component, which keeps what it found as state.

Dagster refreshes the state when `dg dev` loads the code location, and by `dg utils refresh-defs-state`. Between two
refreshes the code location loads without a look at the store. So a job that a user has started appears without code.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
import msgspec
from dagster.components.component_scaffolding import scaffold_component
from dagster.components.utils.defs_state import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from pydantic import BaseModel, Field

from lakestate.assets.stream_plan import StreamPlan
from lakestate.component_fields import (
    StreamFields,
    job_name,
    mapping,
    resolver,
    state_store_of,
)
from lakestate.policies import StreamPolicies
from lakestate.policies.plain import PolicyError, policy_from
from lakestate.stream_component import ROOT_TEMPLATE, root_argument, write_python
from lakestate.stream_definitions import build_definitions_of_plan
from lakestate.stream_plans import known_plan
from state_engine.errors import JobDefinitionError
from state_engine.inspect import list_jobs
from state_engine.text import UNDECODABLE

_log = logging.getLogger(__name__)
_VERSION = 1


class _Found(msgspec.Struct, frozen=True):
    """The state of the component: the jobs of a root, with what each is made of."""

    version: int
    jobs: dict[str, StreamPlan]


class StreamRootParams(BaseModel):
    """Parameters of `dg scaffold defs lakestate.dagster.StreamRootComponent`."""

    root: str = Field(default=ROOT_TEMPLATE, description="Where jobs store their state.")


class StreamRootScaffolder(dg.Scaffolder[StreamRootParams]):
    """Writes the `defs.yaml` of a root."""

    @classmethod
    def get_scaffold_params(cls) -> type[StreamRootParams]:
        """Returns the parameters."""
        return StreamRootParams

    def scaffold(self, request: dg.ScaffoldRequest[StreamRootParams]) -> None:
        """Writes the file, with the root."""
        if request.scaffold_format == "yaml":
            scaffold_component(request, request.params.model_dump())
        else:
            arguments = [root_argument(request.params.root)]
            write_python(request, "StreamRootComponent", arguments, "All streams of the root.")


def _patterns(given: Any) -> list[str]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) and one for one in given):
        raise PolicyError(f"{given!r} is not a list of patterns.", action="Give a list of names such as [orders*].")
    return list(given)


def _policies_by_job(given: Any) -> dict[str, Mapping[str, Any]]:
    named = mapping(given, "names of jobs, each with its policies")
    for job, policies in named.items():
        job_name(job)
        policy_from(StreamPolicies(), policies, (job,))
    return dict(named)


@dg.scaffold_with(StreamRootScaffolder)
@dataclass(kw_only=True)
class StreamRootComponent(StreamFields, dg.StateBackedComponent, dg.Resolvable):
    """The assets, checks, sensors and schedules of all Lakestate streams under one root.

    A stream is found once it has sealed an epoch. A subclass may override `get_asset_spec`.
    """

    policies_by_job: Annotated[
        Mapping[str, Mapping[str, Any]],
        resolver(
            _policies_by_job,
            model_field_type=dict[str, Any] | None,
            description="Settings of single jobs, by name; they replace those of `policies`.",
            examples=[{"orders": {"fresh_within": "5 min"}}],
        ),
    ] = field(default_factory=dict)
    select: Annotated[
        list[str],
        resolver(
            _patterns,
            model_field_type=list[str],
            description="Which jobs: names, or patterns with * and ?.",
            examples=[["orders*"]],
        ),
    ] = field(default_factory=lambda: ["*"])
    exclude: Annotated[
        list[str],
        resolver(
            _patterns,
            model_field_type=list[str],
            description="Which of these jobs are left out.",
            examples=[["*_test"]],
        ),
    ] = field(default_factory=list)
    defs_state: ResolvedDefsStateConfig = field(default_factory=DefsStateConfigArgs.local_filesystem)

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where Dagster keeps the jobs that were found."""
        return DefsStateConfig.from_args(self.defs_state, default_key=f"StreamRootComponent[{self.root}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Finds the jobs under the root, and writes them with their plans."""
        store = state_store_of(self.root)
        jobs = {}
        for listed in list_jobs(self.root):
            if listed.problem:
                _log.warning("Job %s under %s is left out: %s", listed.job, self.root, listed.problem)
            elif self._is_selected(listed.job):
                jobs[listed.job] = known_plan(store, listed.job)
        state_path.write_bytes(msgspec.json.encode(_Found(_VERSION, jobs)))

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """Returns the definitions of the jobs that were found; nothing before the first refresh."""
        if state_path is None:
            _log.warning(
                "The jobs under %s are not known yet. What to do: dg utils refresh-defs-state, then reload.", self.root
            )
            return dg.Definitions()
        store = state_store_of(self.root)
        streams = (
            build_definitions_of_plan(
                job, store, self._policies_of(job), plan=plan, translator=self.translator, executor=None
            )
            for job, plan in _read(state_path, self.root).jobs.items()
            if self._is_selected(job)
        )
        return dg.Definitions.merge(*streams)

    def _is_selected(self, job: str) -> bool:
        chosen = any(fnmatchcase(job, pattern) for pattern in self.select)
        return chosen and not any(fnmatchcase(job, pattern) for pattern in self.exclude)

    def _policies_of(self, job: str) -> StreamPolicies:
        return policy_from(self.policies, self.policies_by_job.get(job))


def _read(state_path: Path, root: str) -> _Found:
    action = "Write it again: dg utils refresh-defs-state."
    try:
        found = msgspec.json.decode(state_path.read_bytes(), type=_Found)
    except UNDECODABLE as error:
        raise JobDefinitionError(
            f"The jobs that were found under {root} cannot be read: {error}.", action=action
        ) from error
    if found.version != _VERSION:
        raise JobDefinitionError(
            f"The jobs that were found under {root} were written in version {found.version}; {_VERSION} is read.",
            action=action,
        )
    return found


__all__ = ["StreamRootComponent", "StreamRootParams", "StreamRootScaffolder"]
