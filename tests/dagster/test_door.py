"""`lakestate.dagster` is all that a Dagster project imports, and costs nothing to those who do not use Dagster."""

import importlib.metadata
import subprocess
import sys

import dagster as dg
import pytest

import lakestate.dagster as door


def loaded_by(module, tmp_path):
    """Returns the top-level modules that a process has after one import."""
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_package_imports_no_dagster_and_the_door_no_jvm(tmp_path):
    assert "dagster" not in loaded_by("lakestate", tmp_path)
    loaded = loaded_by("lakestate.dagster", tmp_path)
    assert "dagster" in loaded
    assert not loaded & {"pyspark", "py4j", "delta", "pandas"}


def test_every_name_of_the_door_exists_and_has_no_other_door():
    assert sorted(door.__all__) == list(door.__all__)
    public = {name for name, one in vars(door).items() if not name.startswith("_") and getattr(one, "__module__", "")}
    assert public - {"from_extra"} == set(door.__all__)


def test_dagster_is_still_dagster():
    assert dg.__file__ != door.__file__
    assert dg.asset


def test_the_door_is_what_dg_lists():
    (entry,) = [
        one
        for one in importlib.metadata.entry_points(group="dagster_dg_cli.registry_modules")
        if one.name == "lakestate"
    ]
    assert entry.load() is door


@pytest.mark.parametrize("name", ["StreamJobComponent", "StreamRootComponent"])
def test_a_component_has_a_schema_for_editors(name):
    schema = getattr(door, name).get_model_cls().model_json_schema()
    assert "root" in schema["required"]
    assert all("description" in one for key, one in schema["properties"].items() if key not in ("translation",))
