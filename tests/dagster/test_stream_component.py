"""A stream from a `defs.yaml`, loaded as Dagster loads it."""

import json
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster import ComponentTree
from dagster.components.testing import create_defs_folder_sandbox

from lakestate.dagster import StreamJobComponent, asset_key_for_state
from state_engine.errors import JobDefinitionError

# Dagster's own loader of YAML uses functions that Pydantic has deprecated, and that Dagster marks as beta or preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]

SAMPLE = Path(__file__).parents[2] / "docs" / "guides" / "dagster" / "defs.yaml"


@contextmanager
def loaded(text):
    """Loads a project with this YAML as its one component; yields the component and its definitions."""
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "stream"
        folder.mkdir()
        (folder / "defs.yaml").write_text(text)
        with sandbox.load_component_and_build_defs(folder) as found:
            yield found


def component(**attributes):
    return yaml.safe_dump(
        {
            "type": "lakestate.dagster.StreamJobComponent",
            "attributes": {"job": "orders", "root": "/state", **attributes},
        }
    )


def refusal(**attributes):
    """Returns Dagster's error about the component."""
    with pytest.raises(Exception) as refused, loaded(component(**attributes)):  # noqa: PT011
        pass
    return "\n".join(str(error) for error in chain_of(refused.value))


def chain_of(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def test_the_sample_of_the_documentation_loads(monkeypatch, tmp_path):
    monkeypatch.setenv("LAKESTATE_ROOT", str(tmp_path))
    with loaded(SAMPLE.read_text()) as (stream, defs):
        assert stream.job == "flights"
        assert stream.root == str(tmp_path)
        assert stream.policies.report_every == timedelta(seconds=30)
        assert stream.policies.fresh_within == timedelta(hours=1)
        assert stream.policies.retention.policy.savepoints.for_ms == 7 * 86_400_000
        dg.Definitions.validate_loadable(defs)
        keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
        assert {"flights/checkpoint", "flights/savepoint"} <= keys


def test_job_and_root_are_all_that_is_needed():
    with loaded(component()) as (stream, defs):
        assert stream == StreamJobComponent(job="orders", root="/state")
        assert defs.resources["state_store"].root == "/state"


def test_components_of_one_root_share_a_code_location():
    with create_defs_folder_sandbox() as sandbox:
        for job in ("flights", "orders"):
            folder = sandbox.defs_folder_path / job
            folder.mkdir()
            (folder / "defs.yaml").write_text(component(job=job))
        with sandbox.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)
            keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert {"flights/savepoint", "orders/savepoint"} <= keys


def test_a_code_location_keeps_its_own_executor():
    with loaded(component()) as (_, defs):
        merged = dg.Definitions.merge(defs, dg.Definitions(executor=dg.multiprocess_executor))
    dg.Definitions.validate_loadable(merged)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"policies": {"report_evry": "30s"}}, "report_evry is not a setting. What to do: Did you mean report_every?"),
        ({"policies": {"report_every": 30}}, "report_every is 30. What to do: Give a length of time with its unit"),
        ({"policies": {"retention": {"policy": {"savepoints": {"last": "ten"}}}}}, "Give a whole number."),
        ({"policies": {"retention": {"policy": {"checkpoints": {"last": 0}}}}}, "Set checkpoints.last to 1 or more."),
        ({"job": "../orders"}, "The job name '../orders' cannot be used in paths."),
        ({"root": "{{ env.LAKESTATE_NOT_SET }}"}, "Set the environment variable that the template names."),
        ({"root": ""}, "'' is not a text."),
        ({"polices": {}}, "polices"),
        ({"sources": ["raw"]}, "sources"),
        ({"sources": {"shop": ""}}, "'' is not a text."),
        ({"plan": "missing.json"}, "lakestate explain orders --json > missing.json"),
        ({"plan": {"sourcs": []}}, "a field sourcs, which no plan has. What to do: Use these: sources, operators."),
        ({"plan": {"operators": [{"uid": "a", "state": []}]}}, "a field operators[0].state, which no plan has"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_taken_is_said_with_its_place(attributes, said):
    told = refusal(**attributes)
    assert said in told
    assert "defs.yaml:" in told
    assert "Traceback" not in told


PLAN = {
    "sources": [{"name": "shop", "kind": "kafka"}],
    "operators": [
        {
            "uid": "baskets",
            "states": [{"name": "total", "kind": "keyed", "shape": "value", "type": "double"}],
            "sinks": [{"uid": "totals", "kind": "DeltaSink"}],
        }
    ],
}


def keys_of(defs):
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def test_the_plan_may_be_in_the_yaml_file():
    with loaded(component(job="shop", plan=PLAN)) as (_, defs):
        graph = defs.resolve_asset_graph()
        assert {"shop/sources/shop_source", "shop/states/baskets.total", "shop/sinks/totals_sink"} <= keys_of(defs)
        parents = graph.get(dg.AssetKey(["shop", "checkpoint"])).parent_keys
        assert parents == {dg.AssetKey(["shop", "sources", "shop_source"])}


def test_the_plan_may_be_a_file_beside_the_yaml_file():
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "stream"
        folder.mkdir()
        (folder / "defs.yaml").write_text(component(job="shop", plan="shop.plan.json"))
        (folder / "shop.plan.json").write_text(json.dumps({**PLAN, "job": "shop", "parallelism": 2}))
        with sandbox.load_component_and_build_defs(folder) as (_, defs):
            assert "shop/states/baskets.total" in keys_of(defs)
        (folder / "shop.plan.json").write_text(json.dumps({**PLAN, "job": "other"}))
        with pytest.raises(Exception) as refused, sandbox.load_component_and_build_defs(folder):  # noqa: PT011
            pass
    assert "is one of job 'other'" in "\n".join(map(str, chain_of(refused.value)))


def test_sources_and_sinks_may_be_assets_of_the_project():
    assets = {"sources": {"shop": "raw/shop"}, "sinks": {"totals": "marts/totals"}}
    with loaded(component(job="shop", plan=PLAN, **assets)) as (_, defs):
        parents = defs.resolve_asset_graph().get(dg.AssetKey(["shop", "checkpoint"])).parent_keys
        assert parents == {dg.AssetKey(["raw", "shop"])}
        assert not {"shop/sources/shop_source", "shop/sinks/totals_sink"} & keys_of(defs)


def test_a_translation_in_yaml_gives_keys_groups_owners_tags_and_descriptions():
    translation = {
        "key": "prod/{{ spec.key.to_user_string() }}",
        "group_name": "{{ asset.role }}s",
        "owners": ["team:{{ asset.job }}"],
        "tags": {"uid": "{{ asset.uid }}"},
        "kinds": ["lakestate"],
        "description": "{{ asset.role }} {{ asset.name }} of {{ asset.job }}",
    }
    with loaded(component(job="shop", plan=PLAN, translation=translation)) as (stream, defs):
        graph = defs.resolve_asset_graph()
        key = asset_key_for_state("shop", "baskets", "total", translator=stream.translator)
        assert key == dg.AssetKey(["prod", "shop", "states", "baskets.total"])
        state = graph.get(key)
        assert (state.group_name, list(state.owners), state.tags["uid"]) == ("states", ["team:shop"], "baskets")
        assert (state.kinds, state.description) == ({"lakestate"}, "state total of shop")
        assert {key.path[0] for key in graph.get_all_asset_keys()} == {"prod"}


class OwnedStream(StreamJobComponent):
    """As in a user's project."""

    def get_asset_spec(self, asset):
        spec = super().get_asset_spec(asset)
        return spec.replace_attributes(owners=["team:shop"]) if asset.role == "savepoint" else spec


def test_a_subclass_may_override_the_specs_and_still_has_the_translation():
    stream = OwnedStream(
        job="shop",
        root="/state",
        translation=lambda spec, asset: spec.replace_attributes(key=spec.key.with_prefix("eu")),
    )
    tree = ComponentTree.for_test()
    graph = stream.build_defs(tree.load_context).resolve_asset_graph()
    assert list(graph.get(dg.AssetKey(["eu", "shop", "savepoint"])).owners) == ["team:shop"]
    assert not graph.get(dg.AssetKey(["eu", "shop", "checkpoint"])).owners


def test_the_component_is_scaffolded_with_its_parameters_in_yaml_and_in_python(monkeypatch):
    with create_defs_folder_sandbox() as sandbox:
        given = {"job": "orders", "plan": "orders.plan.json"}
        folder = sandbox.scaffold_component(StreamJobComponent, defs_path="orders", scaffold_params=given)
        assert yaml.safe_load((folder / "defs.yaml").read_text()) == {
            "type": "lakestate.stream_component.StreamJobComponent",
            "attributes": {"job": "orders", "root": "{{ env.LAKESTATE_ROOT }}", "plan": "orders.plan.json"},
        }
        python = sandbox.scaffold_component(
            StreamJobComponent, defs_path="python", scaffold_params=given, scaffold_format="python"
        )
        (python / "orders.plan.json").write_text(json.dumps({**PLAN, "job": "orders"}))
        (folder / "orders.plan.json").write_text(json.dumps({**PLAN, "job": "orders"}))
        monkeypatch.setenv("LAKESTATE_ROOT", "/state")
        with sandbox.load_component_and_build_defs(folder) as (by_yaml, defs):
            keys = keys_of(defs)
        with sandbox.load_component_and_build_defs(python) as (_, defs):
            assert keys_of(defs) == keys
        assert by_yaml.root == "/state"
        with pytest.raises(JobDefinitionError, match=r"'\.\./orders'"):
            sandbox.scaffold_component(StreamJobComponent, defs_path="bad", scaffold_params={"job": "../orders"})
