"""The fields that the components of streams share, and how their values are read from YAML.

An error about a value names the line of the YAML file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Annotated, Any, TypeAlias, TypeVar

import dagster as dg
from dagster.components.resolved.errors import ResolutionException
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from lakestate.assets.translation import StreamAsset, StreamTranslator
from lakestate.policies import StreamPolicies
from lakestate.policies.plain import PolicyError, policy_from
from lakestate.resources import StateStoreResource
from state_engine.errors import LakestateError
from state_engine.storage.port import check_name

T = TypeVar("T")


def resolver(convert: Callable[[Any], T], **schema: Any) -> dg.Resolver:
    """Returns a resolver that fills in templates and converts the value; an error names the line of the YAML file."""
    return dg.Resolver(reader(convert), inject_before_resolve=False, **schema)


def reader(convert: Callable[[Any], T]) -> Callable[[dg.ResolutionContext, Any], T]:
    """Returns the function of `resolver`, for fields that need a resolver of another kind."""

    def resolve(context: dg.ResolutionContext, given: Any) -> T:
        try:
            return convert(context.resolve_value(given))
        except LakestateError as error:
            raise located(context, error) from error

    return resolve


def located(context: dg.ResolutionContext, error: LakestateError) -> ResolutionException:
    """Returns the error with the place in the YAML file that it is about."""
    if context.source_position_tree is None:
        return ResolutionException(str(error))
    path = [*context.path, *(error.path if isinstance(error, PolicyError) else ())]
    place = context.source_position_tree.source_error(path, error.message, value_error=True)
    return ResolutionException(f"{place.file_name}:{place.start_line_no} - {place.location}\n{place.snippet}\n{error}")


def job_name(given: Any) -> str:
    """Returns the name of a job.

    Raises:
        LakestateError: It cannot be one.
    """
    name = text(given)
    check_name("job name", name)
    return name


def text(given: Any) -> str:
    """Returns a text that is not empty.

    Raises:
        PolicyError: It is empty, or not a text.
    """
    if given is None:
        raise PolicyError("The value is missing.", action="Set the environment variable that the template names.")
    if not isinstance(given, str) or not given.strip():
        raise PolicyError(f"{given!r} is not a text.", action="Give a text, in quotes if it looks like a number.")
    return given


def mapping(given: Any, what: str) -> Mapping[str, Any]:
    """Returns a mapping with texts as keys.

    Raises:
        PolicyError: It is something else.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise PolicyError(f"{given!r} is not a mapping.", action=f"Give {what}.")
    return given


def asset_keys(given: Any) -> dict[str, dg.AssetKey]:
    """Returns asset keys by names; a key is written as in Dagster's UI, `raw/flights`.

    Raises:
        PolicyError: It is not a mapping of texts.
    """
    named = mapping(given, "names, each with an asset key such as raw/flights")
    return {name: dg.AssetKey.from_user_string(text(key)) for name, key in named.items()}


def _policies_from(given: Any) -> StreamPolicies:
    """Returns the policies with the given settings.

    Raises:
        PolicyError: A setting that policies do not have.
    """
    return policy_from(StreamPolicies(), given)


@cache
def state_store_of(root: str) -> StateStoreResource:
    """Returns one resource per root: Dagster can merge the definitions of several components only if they share it."""
    return StateStoreResource(root=root)


class _TranslatorOf(StreamTranslator):
    """The translator that calls `get_asset_spec` of a component, which a user may have overridden."""

    def __init__(self, get_asset_spec: Callable[[StreamAsset], dg.AssetSpec]) -> None:
        self._get_asset_spec = get_asset_spec

    def get_asset_spec(self, asset: StreamAsset) -> dg.AssetSpec:
        return self._get_asset_spec(asset)


Root: TypeAlias = Annotated[
    str,
    resolver(
        text,
        model_field_type=str,
        description="Where jobs store their state: a folder, or a file:// or object store address.",
        examples=["{{ env.LAKESTATE_ROOT }}"],
    ),
]
Policies: TypeAlias = Annotated[
    StreamPolicies,
    resolver(
        _policies_from,
        model_field_type=dict[str, Any] | None,
        description="How streams are operated: the fields of StreamPolicies, with lengths of time as text.",
        examples=[{"report_every": "30s", "fresh_within": "1h"}],
    ),
]
Translation: TypeAlias = Annotated[
    TranslationFn[StreamAsset] | None,
    TranslationFnResolver[StreamAsset](template_vars_for_translation_fn=lambda asset: {"asset": asset}),
]


@dataclass(kw_only=True)
class StreamFields:
    """What every component of streams has: the root, how streams are operated, and how assets are translated."""

    root: Root
    policies: Policies = field(default_factory=StreamPolicies)
    translation: Translation = None

    def get_asset_spec(self, asset: StreamAsset) -> dg.AssetSpec:
        """Returns the spec of an asset: that of `translation`, or without one the default.

        A subclass may override it; see `StreamTranslator.get_asset_spec`.
        """
        return self.translation(asset.spec, asset) if self.translation is not None else asset.spec

    @cached_property
    def translator(self) -> StreamTranslator:
        """The translator of the component, for `asset_key_for_state` and its like."""
        return _TranslatorOf(self.get_asset_spec)


__all__ = [
    "StreamFields",
    "asset_keys",
    "job_name",
    "located",
    "mapping",
    "reader",
    "resolver",
    "state_store_of",
    "text",
]
