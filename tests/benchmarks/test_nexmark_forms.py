"""Nexmark's queries in each of Lakestate's forms, and in Spark's SQL: all results equal those of DuckDB."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.mark import ParameterSet

from benchmarks.data import same_tables
from benchmarks.engines.spark import PEER_SETTINGS
from benchmarks.model import CONTENDERS, EMITTED, NEXMARK_ENGINES, Case, Outcome
from benchmarks.nexmark import events
from benchmarks.nexmark.measure import Plan, cases
from benchmarks.nexmark.queries import QUERIES, runs
from benchmarks.nexmark.reference import answer
from benchmarks.nexmark.rows import sums
from benchmarks.workloads.workload import CHECKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCHS, EPOCH_EVENTS = 5, 6_000
FORMS = ["lakestate", "vectorised", "declared"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nexmark")
    events.write(made, epochs=EPOCHS, epoch_events=EPOCH_EVENTS, files_per_epoch=2)
    return made


def case_of(query: str, engine: str, inputs: Path, work: Path) -> Case:
    plan = Plan(queries=[query], engines=[f"nexmark/{engine}"], epoch_events=EPOCH_EVENTS, epochs=EPOCHS)
    (case,) = cases(plan, inputs, work)
    Path(case.work).mkdir(parents=True)
    return case


def written(engine: str) -> list[str]:
    return [query for query in QUERIES if runs(query, NEXMARK_ENGINES[f"nexmark/{engine}"])]


def pairs() -> list[ParameterSet]:
    """Returns each form with each query; `make test` runs one, declared sessions."""
    chosen = {"declared": "q11"}
    return [
        pytest.param(form, query, marks=[] if chosen.get(form) == query else pytest.mark.long)
        for form in FORMS
        for query in written(form)
    ]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("engine", "query"), pairs())
def test_a_form_arrives_at_what_is_right(
    spark: "SparkSession", inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, query: str
) -> None:
    from benchmarks.nexmark import lakestate

    # Workers import the functions.
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(Path(__file__).parents[2]))
    case = case_of(query, engine, inputs, tmp_path)
    assert_equal(case, lakestate.run_in(spark.newSession(), case))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("query", written("spark"))
def test_spark_arrives_at_what_is_right(spark: "SparkSession", inputs: Path, tmp_path: Path, query: str) -> None:
    from benchmarks.nexmark import spark as peer

    own = spark.newSession()
    for name, value in (PEER_SETTINGS | peer.SETTINGS).items():
        own.conf.set(name, value)
    case = case_of(query, "spark", inputs, tmp_path)
    assert_equal(case, peer.run_in(own, case))


def assert_equal(case: Case, outcome: Outcome) -> None:
    assert len(outcome.ends) == EPOCHS
    right = sums(answer(case.workload, case.inputs, 2))
    assert right.column(CHECKS[0])[0].as_py() > 0
    assert same_tables(outcome.final, {EMITTED: right})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_spark_refuses_what_is_left_out(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    """If this fails, a newer Spark can do query 4: write it."""
    from pyspark.errors import AnalysisException

    from benchmarks.nexmark import spark as peer

    assert [query for query in QUERIES if query not in written("spark")] == ["q4"]
    case = case_of("q9", "spark", inputs, tmp_path)
    case = Case(**{name: getattr(case, name) for name in Case.__struct_fields__} | {"workload": "nexmark-q4"})
    with pytest.raises(AnalysisException, match="streaming aggregations without watermark"):
        peer.run_in(spark.newSession(), case)


def test_every_form_has_its_programs() -> None:
    from benchmarks.nexmark.lakestate import PROGRAMS

    for form, programs in PROGRAMS.items():
        engine = next(one for one in CONTENDERS.values() if "nexmark" in one.module and one.form == form)
        assert set(programs) == {query for query in QUERIES if runs(query, engine)}
