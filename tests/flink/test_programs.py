"""Whole PyFlink programs: only their import lines differ, and they have the same output as in Flink."""

import ast
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state_engine.api import Row
from state_engine.inspect import read_state

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def imported(source: str, package: str) -> list[str]:
    """Returns the names that a module imports from a package, in alphabetical order."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return sorted(alias.name for node in imports if (node.module or "").startswith(package) for alias in node.names)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_only_import_lines_differ(program: Path) -> None:
    source = program.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    originals = docstring[docstring.index("\nfrom ") :]
    assert imported(originals, "pyflink") == imported(source, "state_engine.flink")
    assert imported(originals, "pyflink")
    mentions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert {getattr(node, "module", "") for node in mentions} <= {"state_engine.flink", "typing"}


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    from pyspark import cloudpickle

    name = request.param
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "programs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The job has no state root")
        yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules[name]


def programs(name: str) -> Any:
    return pytest.mark.parametrize("program", [name], indirect=True)


@pytest.mark.spark
@programs("word_count")
def test_word_count(spark: Any, program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program.word_count()
    lines = capsys.readouterr().out.splitlines()
    counts: dict[str, int] = {}
    expected = []
    for word in " ".join(program.LINES).split():
        counts[word] = counts.get(word, 0) + 1
        expected.append(f"({word},{counts[word]})")
    assert sorted(lines) == sorted(expected)


@pytest.mark.spark
@programs("event_time_timer")
def test_event_time_timers(spark: Any, program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program.event_timer_timer_demo()
    lines = capsys.readouterr().out.splitlines()
    last = {line.split("'")[1]: line for line in lines}
    assert last == {"Alice": "('Alice', 163.0)", "Bob": "('Bob', 102.0)"}
    assert len(lines) == 8


@pytest.mark.spark
@programs("side_output")
def test_side_output_and_a_computed_key(spark: Any, program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program.side_output_demo()
    lines = capsys.readouterr().out.splitlines()
    side = [line for line in lines if line.startswith("side> ")]
    assert sorted(side) == [f"side> sideout-{n}" for n in range(1, 6)]
    sums = sorted(int(line) for line in lines if line not in side)
    assert (6 in sums, 9 in sums, len(sums)) == (True, True, 5)


@pytest.mark.spark
@programs("branches")
def test_branches_that_meet_again(spark: Any, program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program.branches_demo()
    lines = capsys.readouterr().out.splitlines()
    wrong = [line for line in lines if line.startswith("wrong> ")]
    right = sorted(line.strip("()").split(",") for line in lines if line not in wrong)
    assert [key for key, _ in right] == ["even"] * 2 + ["large"] * 2 + ["line"] * 6 + ["wrong"] * 2
    last = {key: max(int(n) for other, n in right if other == key) for key, _ in right}
    assert last == {"even": 6, "large": 7, "line": 7, "wrong": 3}
    assert sorted(wrong)[-1] == "wrong> (wrong,3)"
    assert len(wrong) == 2


@pytest.mark.spark
@programs("connected")
def test_connected_streams(spark: Any, program: Any) -> None:
    orders = program.enriched_orders()
    assert orders == [("Bob", "ink", "Oslo"), ("ann", "jam", "Rome"), ("ann", "tea", "Rome")]
    assert {type(row) for row in orders} == {Row}


@pytest.mark.spark
@programs("tumbling_time_window")
def test_windows(spark: Any, program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program.tumbling_windows()
    assert sorted(capsys.readouterr().out.splitlines()) == ["(hi,0,5,4)", "(hi,15,20,1)", "(hi,5,10,3)"]


@pytest.mark.spark
@programs("running_balance")
def test_a_job_goes_on_from_its_root(spark: Any, program: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def pay(number: int, *payments: tuple[str, int]) -> None:
        rows = [{"account": account, "amount": amount} for account, amount in payments]
        file = folder / f".{number}"
        pq.write_table(pa.Table.from_pylist(rows), file)
        os.utime(file, (1_600_000_000 + number,) * 2)
        file.rename(folder / f"{number}.parquet")

    def run(limit: int) -> list[Any]:
        stream = spark.readStream.schema("account string, amount bigint").parquet(str(folder))
        balances: list[Any] = program.running_balance(stream, (tmp_path / "root").as_uri(), limit)
        return sorted(map(tuple, balances))

    pay(1, ("a", 1), ("b", 2))
    assert run(2) == [("a", 1), ("b", 2)]
    pay(2, ("a", 10), ("c", 5))
    assert run(2) == [("a", 11), ("c", 5)]
    state = read_state(str(tmp_path / "root"), "running-balance", "balance", "balance").to_pylist()
    assert {row["account"]: row["value"] for row in state} == {"a": 11, "b": 2, "c": 5}


@pytest.mark.spark
@programs("count_window_all")
def test_windows_over_all_elements(spark: Any, program: Any) -> None:
    sums = program.sums()
    assert (len(sums), sum(sums)) == (2, 40)


@pytest.mark.spark
@programs("broadcast_rules")
def test_broadcast_state(spark: Any, program: Any) -> None:
    assert program.above_their_limits() == [("a", 9), ("c", 2)]


@pytest.mark.spark
@programs("rides_and_fares")
def test_two_streams_with_timers_and_a_side_output(
    spark: Any, program: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    program.rides_and_fares()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "+I[1, Rome, 3.5]",
        "+I[2, Oslo, 7.5]",
        "unmatched> fare 4",
        "unmatched> ride 3 at 3500, seen [(2500, 'ride')]",
    ]
