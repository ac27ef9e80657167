"""A stream from a `defs.yaml`, loaded as Dagster loads it."""

from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from lakestate.stream_component import StreamJobComponent

# Dagster's own loader of YAML uses functions that Pydantic has deprecated, and that Dagster marks as beta or preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]

SAMPLE = Path(__file__).parents[2] / "docs" / "dagster" / "defs.yaml"


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
            "type": "lakestate.stream_component.StreamJobComponent",
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
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_taken_is_said_with_its_place(attributes, said):
    told = refusal(**attributes)
    assert said in told
    assert "defs.yaml:" in told
    assert "Traceback" not in told
