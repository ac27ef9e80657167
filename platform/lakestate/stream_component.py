"""One stream as a Dagster component, so that a project needs only a `defs.yaml` for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from lakestate.assets.stream_plan import StreamPlan
from lakestate.assets.translation import StreamAsset, StreamTranslator
from lakestate.component_fields import (
    Policies,
    Root,
    Translation,
    TranslatorOf,
    asset_keys,
    job_name,
    located,
    resolver,
    state_store_of,
)
from lakestate.policies import StreamPolicies
from lakestate.stream_definitions import build_stream_definitions
from lakestate.stream_plans import plan_from
from state_engine.errors import LakestateError

ROOT_TEMPLATE = "{{ env.LAKESTATE_ROOT }}"


class StreamJobParams(BaseModel):
    """Parameters of `dg scaffold defs lakestate.dagster.StreamJobComponent`."""

    job: str = Field(description="Name of the job, as it is given to StreamJob.")
    root: str = Field(default=ROOT_TEMPLATE, description="Where jobs store their state.")
    plan: str | None = Field(
        default=None, description="File with the output of `lakestate explain <job> --json`, relative to the component."
    )


class StreamJobScaffolder(dg.Scaffolder[StreamJobParams]):
    """Writes the `defs.yaml` of one stream."""

    @classmethod
    def get_scaffold_params(cls) -> type[StreamJobParams]:
        """Returns the parameters."""
        return StreamJobParams

    def scaffold(self, request: dg.ScaffoldRequest[StreamJobParams]) -> None:
        """Writes the file, with the job and the root, and the plan if there is one."""
        job_name(request.params.job)
        scaffold_component(request, request.params.model_dump(exclude_none=True))


def _plan(context: dg.ResolutionContext, model: Any) -> StreamPlan | None:
    """Reads the plan of the model: a file beside the YAML file, or the plan itself."""
    given = context.resolve_value(model.plan)
    if given is None:
        return None
    at = context.at_path("plan")
    try:
        job = job_name(context.resolve_value(model.job))
        if isinstance(given, str):
            return plan_from(job, Path(context.resolve_source_relative_path(given)))
        return plan_from(job, given)
    except LakestateError as error:
        raise located(at, error) from error


@dg.scaffold_with(StreamJobScaffolder)
@dataclass(kw_only=True)
class StreamJobComponent(dg.Component, dg.Resolvable):
    """The assets, checks, sensors and schedules of one Lakestate stream.

    All components of one code location must have the same root. A subclass may override `get_asset_spec`.
    """

    job: Annotated[str, resolver(job_name, model_field_type=str, description="Name of the job.", examples=["flights"])]
    root: Root
    policies: Policies = field(default_factory=StreamPolicies)
    plan: Annotated[
        StreamPlan | None,
        dg.Resolver.from_model(
            _plan,
            model_field_type=str | dict[str, Any] | None,
            description="What the job is made of: the file that `lakestate explain <job> --json` wrote, relative to "
            "the component, or its sources and operators. A registered job has its plan beside its module.",
            examples=["flights.plan.json"],
        ),
    ] = None
    sources: Annotated[
        Mapping[str, dg.AssetKey],
        resolver(
            asset_keys,
            model_field_type=dict[str, str] | None,
            description="Assets of the code location that represent sources, by the names of the sources in the plan.",
            examples=[{"flights": "raw/flights"}],
        ),
    ] = field(default_factory=dict)
    sinks: Annotated[
        Mapping[str, dg.AssetKey],
        resolver(
            asset_keys,
            model_field_type=dict[str, str] | None,
            description="Assets of the code location that represent sinks, by the uids of the sinks.",
            examples=[{"legs": "marts/legs"}],
        ),
    ] = field(default_factory=dict)
    translation: Translation = None

    def get_asset_spec(self, asset: StreamAsset) -> dg.AssetSpec:
        """Returns the spec of an asset: that of `translation`, or without one the default.

        A subclass may override it; see `StreamTranslator.get_asset_spec`.
        """
        return self.translation(asset.spec, asset) if self.translation is not None else asset.spec

    @cached_property
    def translator(self) -> StreamTranslator:
        """The translator of the component, for `asset_key_for_state` and its like."""
        return TranslatorOf(self.get_asset_spec)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Returns the definitions of the stream; the executor of the code location runs the steps."""
        return build_stream_definitions(
            self.job,
            state_store_of(self.root),
            self.policies,
            plan=self.plan,
            sources=self.sources,
            sinks=self.sinks,
            translator=self.translator,
            executor=None,
        )


__all__ = ["ROOT_TEMPLATE", "StreamJobComponent", "StreamJobParams", "StreamJobScaffolder"]
