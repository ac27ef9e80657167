"""One stream as a Dagster component, so that a project needs only a `defs.yaml` for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar

import dagster as dg
from dagster.components.resolved.errors import ResolutionException

from lakestate.policies import StreamPolicies
from lakestate.policies.plain import PolicyError, policy_from
from lakestate.resources import StateStoreResource
from lakestate.stream_definitions import build_stream_definitions
from state_engine.errors import LakestateError
from state_engine.storage.port import check_name

T = TypeVar("T")


def _read(convert: Callable[[Any], T], **schema: Any) -> dg.Resolver:
    """Returns a resolver that fills in templates and converts the value; an error names the line of the YAML file."""

    def resolve(context: dg.ResolutionContext, given: Any) -> T:
        try:
            return convert(context.resolve_value(given))
        except LakestateError as error:
            raise _located(context, error) from error

    return dg.Resolver(resolve, inject_before_resolve=False, **schema)


def _located(context: dg.ResolutionContext, error: LakestateError) -> ResolutionException:
    """Returns the error with the place in the YAML file that it is about."""
    if context.source_position_tree is None:
        return ResolutionException(str(error))
    path = [*context.path, *(error.path if isinstance(error, PolicyError) else ())]
    place = context.source_position_tree.source_error(path, error.message, value_error=True)
    return ResolutionException(f"{place.file_name}:{place.start_line_no} - {place.location}\n{place.snippet}\n{error}")


def _job(given: Any) -> str:
    name = _text(given)
    check_name("job name", name)
    return name


def _text(given: Any) -> str:
    if given is None:
        raise PolicyError("The value is missing.", action="Set the environment variable that the template names.")
    if not isinstance(given, str) or not given.strip():
        raise PolicyError(f"{given!r} is not a text.", action="Give a text, in quotes if it looks like a number.")
    return given


def _policies(given: Any) -> StreamPolicies:
    return policy_from(StreamPolicies(), given)


@cache
def _state_store(root: str) -> StateStoreResource:
    """Returns one resource per root: Dagster can merge the definitions of several components only if they share it."""
    return StateStoreResource(root=root)


@dataclass(kw_only=True)
class StreamJobComponent(dg.Component, dg.Resolvable):
    """The assets, checks, sensors and schedules of one Lakestate stream.

    All components of one code location must have the same root.
    """

    job: Annotated[str, _read(_job, model_field_type=str, description="Name of the job.", examples=["flights"])]
    root: Annotated[
        str,
        _read(
            _text,
            model_field_type=str,
            description="Where jobs store their state: a folder, or a file:// or object store address.",
            examples=["{{ env.LAKESTATE_ROOT }}"],
        ),
    ]
    policies: Annotated[
        StreamPolicies,
        _read(
            _policies,
            model_field_type=dict[str, Any] | None,
            description="How the stream is operated: the fields of StreamPolicies, with lengths of time as text.",
            examples=[{"report_every": "30s", "fresh_within": "1h"}],
        ),
    ] = field(default_factory=StreamPolicies)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Returns the definitions of the stream; the executor of the code location runs the steps."""
        return build_stream_definitions(self.job, _state_store(self.root), self.policies, executor=None)


__all__ = ["StreamJobComponent"]
