"""What `@pytest.mark.all_pairs` leaves to the long run (`tests/plugins/all_pairs.py`)."""

import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[1] / "plugins"
TESTS = """
import pytest

@pytest.fixture(params="xyz")
def layout(request): return request.param

@pytest.mark.all_pairs
@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("kind", ["a", "b", "c"])
def test_product(layout, kind, n): pass

@pytest.mark.all_pairs(seed=2)
@pytest.mark.parametrize("kind", ["a", "b", "c"])
@pytest.mark.parametrize("seed", range(5))
def test_seeds(kind, seed): pass

@pytest.mark.all_pairs(seed=2)
@pytest.mark.parametrize("seed", range(5))
def test_seeds_alone(seed): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with copies of the plugins."""
    (tmp_path / "plugins").mkdir()
    for name in ("selection.py", "all_pairs.py"):
        (tmp_path / "plugins" / name).write_text((PLUGINS / name).read_text())
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\npythonpath = plugins\naddopts = --strict-markers\nmarkers = long: x\n"
    )
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["selection", "all_pairs"]\n')
    (tmp_path / "test_of_products.py").write_text(TESTS)
    return tmp_path


def run(suite: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments]
    return subprocess.run(command, cwd=suite, capture_output=True, text=True, timeout=60).stdout


def parameters(output: str, test: str) -> set[tuple[str, ...]]:
    passed = [line.split("::")[1].split()[0] for line in output.splitlines() if "PASSED" in line]
    return {tuple(name.partition("[")[2].rstrip("]").split("-")) for name in passed if name.startswith(f"{test}[")}


def test_each_pair_of_values_is_run_and_the_long_run_has_the_remaining_products(suite: Path) -> None:
    short, long = (parameters(run(suite, *arguments), "test_product") for arguments in ([], ["--long"]))
    whole = set(product("xyz", "abc", "012"))
    assert short | long == whole
    assert not short & long
    for first, second in combinations(range(3), 2):
        assert {(one[first], one[second]) for one in short} == {(one[first], one[second]) for one in whole}
    assert len(short) < len(whole) / 2


def test_of_seeds_each_combination_gets_as_many_as_the_mark_says(suite: Path) -> None:
    chosen = run(suite)
    by_kind = [kind for _, kind in parameters(chosen, "test_seeds")]
    assert sorted(by_kind) == ["a", "a", "b", "b", "c", "c"]
    assert len(parameters(chosen, "test_seeds_alone")) == 2
    assert len({seed for seed, _ in parameters(chosen, "test_seeds")}) > 2, "other combinations get other seeds"


def test_the_quick_tests_leave_out_the_same(suite: Path) -> None:
    assert parameters(run(suite, "-m", "not long"), "test_product") == parameters(run(suite), "test_product")


def test_a_sample_of_two_parameters_is_refused(suite: Path) -> None:
    (suite / "test_of_products.py").write_text(TESTS.replace("all_pairs(seed=2)", "all_pairs(seed=2, kind=1)"))
    command = [sys.executable, "-m", "pytest"]
    refused = subprocess.run(command, cwd=suite, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 4
    assert "takes a sample of one parameter, not of ['seed', 'kind']" in refused.stderr + refused.stdout
