"""Maps the assets of a stream to asset specs of the user's choice: keys, groups, owners, tags, kinds, descriptions.

A key is needed twice: when definitions are built, and when a sensor or a run writes an event. Both get it from the same
`StreamKeys`, so that events are written to the assets that the definitions contain.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import dagster as dg

from lakestate.assets.names import (
    KINDS,
    checkpoint_key,
    compaction_key,
    dagster_name,
    rescaled_state_key,
    restored_state_key,
    retention_key,
    savepoint_key,
    sink_key,
    sinks_group,
    source_key,
    sources_group,
    state_key,
    states_group,
)
from lakestate.assets.stream_plan import StreamPlan
from state_engine.errors import JobDefinitionError
from state_engine.log.paths import OPERATOR, operator_table_path, table_path

Role = Literal[
    "source",
    "state",
    "checkpoint",
    "sink",
    "savepoint",
    "restored_state",
    "rescaled_state",
    "retention",
    "compaction",
]


_GROUPS: dict[Role, Callable[[str], str]] = {"source": sources_group, "state": states_group, "sink": sinks_group}
_OF_EACH_JOB: dict[Role, Callable[[str], dg.AssetKey]] = {
    "checkpoint": checkpoint_key,
    "savepoint": savepoint_key,
    "restored_state": restored_state_key,
    "rescaled_state": rescaled_state_key,
    "retention": retention_key,
    "compaction": compaction_key,
}


@dataclass(frozen=True, kw_only=True)
class StreamAsset:
    """One asset of a stream, as a translator gets it.

    Attributes:
        job: Name of the job.
        role: What the asset shows.
        spec: Its spec without a translation. When an event is reported, only key, group and kinds are set.
        uid: Uid of the operator of a state, or of a sink; else empty.
        name: Name of a source or a state; else empty.
    """

    job: str
    role: Role
    spec: dg.AssetSpec
    uid: str = ""
    name: str = ""


class StreamTranslator:
    """Maps the assets of streams to asset specs; a subclass overrides `get_asset_spec`."""

    def get_asset_spec(self, asset: StreamAsset) -> dg.AssetSpec:
        """Returns the spec of an asset: by default the one it has without a translation.

        The key must depend on `job`, `role`, `uid`, `name` and the default key alone: it is also needed when an event
        is reported, and then the other fields of the spec are not set. A translation may change the key, group, owners,
        tags, kinds, description, metadata, freshness policy and automation condition.

        Args:
            asset: The asset, with its default spec.
        """
        return asset.spec


class StreamKeys:
    """The asset keys of one stream after translation.

    Args:
        job: Name of the job.
        translator: Of the code location; by default every asset has the key of `lakestate.assets.names`.
        plan: The sources, states and sinks that `translate` gets.
    """

    def __init__(self, job: str, translator: StreamTranslator | None = None, plan: StreamPlan | None = None) -> None:
        self._job, self._translator = job, translator or StreamTranslator()
        self._assets: dict[dg.AssetKey, StreamAsset] = {}
        self._keys: dict[dg.AssetKey, dg.AssetKey] = {}
        if plan is not None:
            self._add_all(plan)

    def _add_all(self, plan: StreamPlan) -> None:
        for source in plan.sources:
            self.source(source.name)
        for state in plan.states:
            self.state(state.table)
        for sink in plan.sinks:
            self.sink(sink.uid)
        for role in _OF_EACH_JOB:
            self._of_job(role)

    @property
    def job(self) -> str:
        """Name of the job."""
        return self._job

    @property
    def checkpoint(self) -> dg.AssetKey:
        """Key of the newest checkpoint."""
        return self._of_job("checkpoint")

    @property
    def savepoint(self) -> dg.AssetKey:
        """Key of the savepoints."""
        return self._of_job("savepoint")

    @property
    def restored_state(self) -> dg.AssetKey:
        """Key of the restores."""
        return self._of_job("restored_state")

    @property
    def rescaled_state(self) -> dg.AssetKey:
        """Key of the changes of parallelism."""
        return self._of_job("rescaled_state")

    @property
    def retention(self) -> dg.AssetKey:
        """Key of the removals."""
        return self._of_job("retention")

    @property
    def compaction(self) -> dg.AssetKey:
        """Key of the compactions."""
        return self._of_job("compaction")

    def state(self, table: str) -> dg.AssetKey:
        """Returns the key of a state.

        Args:
            table: Folder of the state below the job's root, `<uid>/<state>`.
        """
        parts = table.removeprefix(f"{OPERATOR}/").split("/")
        return self._key("state", state_key(self._job, table), uid=parts[0], name="/".join(parts[1:]))

    def source(self, name: str) -> dg.AssetKey:
        """Returns the key of a source."""
        return self._key("source", source_key(self._job, name), name=name)

    def sink(self, uid: str) -> dg.AssetKey:
        """Returns the key of a sink."""
        return self._key("sink", sink_key(self._job, uid), uid=uid)

    def translate(
        self, definitions: Iterable[dg.AssetSpec | dg.AssetsDefinition]
    ) -> list[dg.AssetSpec | dg.AssetsDefinition]:
        """Returns the finished assets of the stream with the specs that the translator gives them.

        Assets that this object has returned no key for are returned as they are, such as those of another stream.

        Args:
            definitions: The assets, with their default keys.

        Raises:
            JobDefinitionError: Two assets have the same key, or a key depends on more than it may.
        """
        self._check_distinct()
        return [
            self._translated(one) if isinstance(one, dg.AssetSpec) else self._translated_definition(one)
            for one in definitions
        ]

    def _of_job(self, role: Role) -> dg.AssetKey:
        return self._key(role, _OF_EACH_JOB[role](self._job))

    def _key(self, role: Role, default: dg.AssetKey, *, uid: str = "", name: str = "") -> dg.AssetKey:
        if default not in self._keys:
            spec = dg.AssetSpec(default, group_name=_GROUPS.get(role, dagster_name)(self._job), kinds=KINDS)
            asset = StreamAsset(job=self._job, role=role, spec=spec, uid=uid, name=name)
            self._keys[default] = self._translator.get_asset_spec(asset).key
            self._assets[default] = asset
        return self._keys[default]

    def _translated_definition(self, assets: dg.AssetsDefinition) -> dg.AssetsDefinition:
        """Returns an executable asset; its op keeps the name by the default key, which run configs contain."""
        defaults = {self._keys[key]: key for key in assets.keys if key in self._keys}
        renamed = assets.with_attributes(asset_key_replacements=self._keys)
        return renamed.map_asset_specs(lambda spec: self._translated(spec, defaults.get(spec.key)))

    def _translated(self, spec: dg.AssetSpec, default: dg.AssetKey | None = None) -> dg.AssetSpec:
        """Returns the spec of an asset.

        Args:
            spec: Its finished spec.
            default: Its key without a translation, if `spec` and its deps have the translated ones.
        """
        asset = self._assets.get(default or spec.key)
        if asset is None:
            return spec
        given = spec.replace_attributes(key=asset.spec.key)
        if default is None:
            deps = [dep._replace(asset_key=self._keys.get(dep.asset_key, dep.asset_key)) for dep in spec.deps]
            given = given.replace_attributes(deps=deps)
        translated = self._translator.get_asset_spec(replace(asset, spec=given))
        if translated.key != self._keys[asset.spec.key]:
            raise JobDefinitionError(
                f"The translation gives asset {_text(asset.spec.key)} two keys: {_text(self._keys[asset.spec.key])} "
                f"and {_text(translated.key)}.",
                action="Let the key depend on the job, role, uid, name and default key alone.",
            )
        return translated

    def _check_distinct(self) -> None:
        defaults: dict[dg.AssetKey, dg.AssetKey] = {}
        for default, key in self._keys.items():
            other = defaults.setdefault(key, default)
            if other != default:
                raise JobDefinitionError(
                    f"The translation gives {_text(other)} and {_text(default)} the same key, {_text(key)}.",
                    action="Add what tells them apart to the key, such as the role, the uid and the name.",
                )


def asset_key_for_checkpoint(job: str, *, translator: StreamTranslator | None = None) -> dg.AssetKey:
    """Returns the asset key of the newest checkpoint of a stream.

    Args:
        job: Name of the job.
        translator: That of the stream's definitions, if they have one.
    """
    return StreamKeys(job, translator).checkpoint


def asset_key_for_savepoint(job: str, *, translator: StreamTranslator | None = None) -> dg.AssetKey:
    """Returns the asset key of the savepoints of a stream; arguments as of `asset_key_for_checkpoint`."""
    return StreamKeys(job, translator).savepoint


def asset_key_for_restored_state(job: str, *, translator: StreamTranslator | None = None) -> dg.AssetKey:
    """Returns the asset key of the restores of a stream; arguments as of `asset_key_for_checkpoint`."""
    return StreamKeys(job, translator).restored_state


def asset_key_for_state(
    job: str, uid: str, state: str, *, of_operator: bool = False, translator: StreamTranslator | None = None
) -> dg.AssetKey:
    """Returns the asset key of a state.

    Args:
        job: Name of the job.
        uid: Uid of the operator.
        state: Name of the state.
        of_operator: Whether it is operator state or broadcast state; else it is keyed state.
        translator: That of the stream's definitions, if they have one.
    """
    return StreamKeys(job, translator).state((operator_table_path if of_operator else table_path)(uid, state))


def asset_key_for_source(job: str, name: str, *, translator: StreamTranslator | None = None) -> dg.AssetKey:
    """Returns the asset key of a source.

    Args:
        job: Name of the job.
        name: Name of the source in the plan of the job.
        translator: That of the stream's definitions, if they have one.
    """
    return StreamKeys(job, translator).source(name)


def asset_key_for_sink(job: str, uid: str, *, translator: StreamTranslator | None = None) -> dg.AssetKey:
    """Returns the asset key of a sink.

    Args:
        job: Name of the job.
        uid: Uid of the sink.
        translator: That of the stream's definitions, if they have one.
    """
    return StreamKeys(job, translator).sink(uid)


def _text(key: dg.AssetKey) -> str:
    return key.to_user_string()


__all__ = [
    "Role",
    "StreamAsset",
    "StreamKeys",
    "StreamTranslator",
    "asset_key_for_checkpoint",
    "asset_key_for_restored_state",
    "asset_key_for_savepoint",
    "asset_key_for_sink",
    "asset_key_for_source",
    "asset_key_for_state",
]
