"""One stream as a Dagster component, so that a project needs only a `defs.yaml` for it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from lakestate.assets.stream_plan import StreamPlan
from lakestate.component_fields import (
    StreamFields,
    asset_keys,
    job_name,
    located,
    resolver,
    state_store_of,
)
from lakestate.stream_definitions import build_stream_definitions
from lakestate.stream_plans import plan_from
from state_engine.errors import LakestateError

ROOT_TEMPLATE = "{{ env.LAKESTATE_ROOT }}"
_IMPORTS = {"os.environ": "import os", "Path(": "from pathlib import Path"}


class StreamJobParams(BaseModel):
    """Parameters of `dg scaffold defs lakestate.dagster.StreamJobComponent`."""

    job: str = Field(description="Name of the job, as it is given to StreamJob.")
    root: str = Field(default=ROOT_TEMPLATE, description="Where jobs store their state.")
    plan: str | None = Field(
        default=None, description="File with the output of `lakestate explain <job> --json`, relative to the component."
    )


class StreamJobScaffolder(dg.Scaffolder[StreamJobParams]):
    """Writes the `defs.yaml` of one stream, or a `component.py` with `--format python`."""

    @classmethod
    def get_scaffold_params(cls) -> type[StreamJobParams]:
        """Returns the parameters."""
        return StreamJobParams

    def scaffold(self, request: dg.ScaffoldRequest[StreamJobParams]) -> None:
        """Writes the file, with the job and the root, and the plan if there is one."""
        params = request.params
        job_name(params.job)
        if request.scaffold_format == "yaml":
            scaffold_component(request, params.model_dump(exclude_none=True))
            return
        arguments = [f"job={json.dumps(params.job)}", root_argument(params.root)]
        if params.plan is not None:
            plan = f"Path(__file__).with_name({json.dumps(params.plan)}).read_bytes()"
            arguments.append(f"plan=read_plan({json.dumps(params.job)}, {plan})")
        write_python(request, "StreamJobComponent", arguments, "The stream of this folder.")


def root_argument(root: str) -> str:
    """Returns the argument `root` of a component in Python, for a root as YAML has it."""
    return 'root=os.environ["LAKESTATE_ROOT"]' if root == ROOT_TEMPLATE else f"root={json.dumps(root)}"


def write_python(request: dg.ScaffoldRequest[Any], component: str, arguments: Sequence[str], about: str) -> None:
    """Writes `component.py` with a function that returns a component; imports are those that the arguments need."""
    source = "\n".join(arguments)
    standard = [line for name, line in _IMPORTS.items() if name in source]
    names = ", ".join([component, *(["read_plan"] if "read_plan(" in source else [])])
    lines = [
        *([*standard, ""] if standard else []),
        "import dagster as dg",
        "",
        f"from lakestate.dagster import {names}",
        "",
        "",
        "@dg.component_instance",
        f"def load(context: dg.ComponentLoadContext) -> {component}:",
        f'    """{about}"""',
        f"    return {component}(",
        *(f"        {argument}," for argument in arguments),
        "    )",
    ]
    (request.target_path / "component.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


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
class StreamJobComponent(StreamFields, dg.Component, dg.Resolvable):
    """The assets, checks, sensors and schedules of one Lakestate stream.

    All components of one code location must have the same root. A subclass may override `get_asset_spec`.
    """

    job: Annotated[str, resolver(job_name, model_field_type=str, description="Name of the job.", examples=["flights"])]
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


__all__ = [
    "ROOT_TEMPLATE",
    "StreamJobComponent",
    "StreamJobParams",
    "StreamJobScaffolder",
    "root_argument",
    "write_python",
]
