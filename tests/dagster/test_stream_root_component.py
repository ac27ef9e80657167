"""All streams under a root from one `defs.yaml`: found, kept as state, and shown without code."""

import asyncio
from contextlib import contextmanager

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox
from dagster.components.utils.project_paths import get_local_state_path

from lakestate.dagster import StreamRootComponent
from state_engine.errors import JobDefinitionError

pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]


@pytest.fixture
def root(tmp_path, new_stream):
    """A root with two jobs that have sealed epochs."""
    for job in ("flights", "tides"):
        new_stream(tmp_path / "state", job).checkpoints(1, 1)
    return tmp_path / "state"


@contextmanager
def project(root, **attributes):
    """A project with one component; yields the sandbox and the folder of the component."""
    attributes = {"root": str(root), **attributes}
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "streams"
        folder.mkdir()
        yaml_file = {"type": "lakestate.dagster.StreamRootComponent", "attributes": attributes}
        (folder / "defs.yaml").write_text(yaml.safe_dump(yaml_file))
        yield sandbox, folder


def refresh(sandbox, folder):
    """Does what `dg utils refresh-defs-state` does for the component."""
    with sandbox.load_component_and_build_defs(folder) as (component, _):
        asyncio.run(component.refresh_state(sandbox.project_root))
        return get_local_state_path(component.defs_state_config.key, sandbox.project_root)


def keys_of(sandbox, folder):
    with sandbox.load_component_and_build_defs(folder) as (_, defs):
        dg.Definitions.validate_loadable(defs)
        return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def test_before_the_first_refresh_there_is_nothing_and_a_warning_says_what_to_do(root, caplog):
    with project(root) as (sandbox, folder):
        assert keys_of(sandbox, folder) == set()
    assert "dg utils refresh-defs-state" in caplog.text


def test_a_refresh_finds_the_jobs_and_a_later_one_finds_a_new_job(root, new_stream):
    with project(root) as (sandbox, folder):
        refresh(sandbox, folder)
        keys = keys_of(sandbox, folder)
        assert {"flights/checkpoint", "tides/checkpoint", "tides/states/aircraft.legs"} <= keys
        assert "flights/sources/flights_source" in keys  # of the plan beside the module of the registered job

        new_stream(root, "winds").checkpoints(1, 1)
        assert "winds/checkpoint" not in keys_of(sandbox, folder)
        refresh(sandbox, folder)
        assert "winds/checkpoint" in keys_of(sandbox, folder)


def test_between_two_refreshes_the_store_is_not_read(root):
    with project(root) as (sandbox, folder):
        refresh(sandbox, folder)
        keys = keys_of(sandbox, folder)
        root.rename(root.with_name("elsewhere"))
        assert keys_of(sandbox, folder) == keys


def test_jobs_are_chosen_by_patterns_and_have_policies_of_their_own(root):
    attributes = {
        "select": ["*"],
        "exclude": ["fl*"],
        "policies": {"fresh_within": "1h", "sample_rows": 0},
        "policies_by_job": {"tides": {"fresh_within": "5 min"}},
    }
    with project(root, **attributes) as (sandbox, folder):
        refresh(sandbox, folder)
        with sandbox.load_component_and_build_defs(folder) as (_, defs):
            graph = defs.resolve_asset_graph()
        assert not [key for key in graph.get_all_asset_keys() if key.path[0] == "flights"]
        policy = graph.get(dg.AssetKey(["tides", "checkpoint"])).freshness_policy
        assert policy.fail_window.to_timedelta().total_seconds() == 300


def test_a_translation_is_for_all_jobs(root):
    translation = {"key": "prod/{{ spec.key.to_user_string() }}", "group_name": "{{ asset.job }}_{{ asset.role }}"}
    with project(root, translation=translation) as (sandbox, folder):
        refresh(sandbox, folder)
        with sandbox.load_component_and_build_defs(folder) as (_, defs):
            graph = defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey(["prod", "tides", "savepoint"])).group_name == "tides_savepoint"
    assert {key.path[0] for key in graph.get_all_asset_keys()} == {"prod"}


def test_state_that_cannot_be_read_is_named_with_what_to_do(root):
    with project(root) as (sandbox, folder):
        path = refresh(sandbox, folder)
        for content, said in ((b"{", "cannot be read"), (b'{"version": 2, "jobs": {}}', "in version 2")):
            path.write_bytes(content)
            with pytest.raises(Exception) as refused, sandbox.load_component_and_build_defs(folder):  # noqa: PT011
                pass
            causes = list(_chain(refused.value))
            (error,) = [one for one in causes if isinstance(one, JobDefinitionError)]
            assert said in str(error)
            assert "dg utils refresh-defs-state" in error.action


def test_policies_of_single_jobs_are_checked(root):
    attributes = {"policies_by_job": {"tides": {"fresh": "5 min"}}}
    with project(root, **attributes) as (sandbox, folder):
        with pytest.raises(Exception) as refused, sandbox.load_component_and_build_defs(folder):  # noqa: PT011
            pass
        told = "\n".join(map(str, _chain(refused.value)))
    assert "tides.fresh is not a setting" in told
    assert "defs.yaml:" in told


def test_the_component_is_scaffolded_in_yaml_and_in_python():
    with create_defs_folder_sandbox() as sandbox:
        python = sandbox.scaffold_component(
            StreamRootComponent, "python", scaffold_params={"root": "/state"}, scaffold_format="python"
        )
        with sandbox.load_component_and_build_defs(python) as (_, defs):
            dg.Definitions.validate_loadable(defs)
        assert 'StreamRootComponent(\n        root="/state",\n    )' in (python / "component.py").read_text()
        folder = sandbox.scaffold_component(StreamRootComponent, defs_path="streams")
        assert yaml.safe_load((folder / "defs.yaml").read_text())["attributes"] == {"root": "{{ env.LAKESTATE_ROOT }}"}


def _chain(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
