from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks.model import CONTENDERS, Result
from benchmarks.thresholds import (
    Growth,
    Limit,
    Memory,
    Ratio,
    Thresholds,
    Verdict,
    judge,
    load,
    passed,
    ratio_to,
    unmeasured,
)
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.workload import Workload

Rows = Callable[..., Result]
TWENTY = Thresholds(
    ratio=[Ratio("running_count", ["int"], 200_000, "lakestate/row", "spark/transformWithState", at_least=20.0)]
)
MEMORY = Thresholds(limit=[Limit("worker_memory", "lakestate/row", "peak_rss_mb", at_most=1536.0)])


def peer(row: Rows, speed: float, **changes: object) -> Result:
    return row(engine="spark", form="transformWithState", backend="rocksdb", records_per_second=speed, **changes)


@pytest.mark.parametrize(("speed", "reached"), [(25_000.0, True), (25_001.0, False)])
def test_a_ratio_is_reached_from_its_figure_on(row: Rows, speed: float, reached: bool) -> None:
    verdicts = judge(TWENTY, [row(), peer(row, speed)])

    assert [verdict.reached for verdict in verdicts] == [reached]
    assert passed(verdicts) is reached


def test_a_threshold_says_its_name_and_what_was_measured(row: Rows) -> None:
    (verdict,) = judge(TWENTY, [row(), peer(row, 50_000.0)])

    assert verdict.name == (
        "running_count, int keys, epochs of 200,000: "
        "lakestate/row on heap at least 20 times spark/transformWithState on rocksdb"
    )
    assert verdict.measured == 10.0


@pytest.mark.parametrize("wrong", ["mine", "peer"])
def test_wrong_results_reach_nothing_however_fast(row: Rows, wrong: str) -> None:
    results = [row(results_equal=wrong != "mine"), peer(row, 1_000.0, results_equal=wrong != "peer")]

    (verdict,) = judge(TWENTY, results)

    assert not verdict.reached
    assert verdict.note.startswith("wrong results")
    assert not passed([verdict])


@pytest.mark.parametrize("other", [{"key_type": "string"}, {"epoch_records": 1_000_000}, {"keys": 5_000}])
def test_only_rows_of_the_same_case_are_compared(row: Rows, other: dict[str, object]) -> None:
    (verdict,) = judge(TWENTY, [row(), peer(row, 1.0, **other)])

    assert verdict.measured is None
    assert verdict.note == "not measured in this run"


def test_what_was_not_measured_names_the_rows_that_it_needs(row: Rows) -> None:
    growth = Growth(workload="running_count", of="lakestate/row", few=100_000, many=5_000_000, at_most=2.0)
    limit = Limit("running_count", "lakestate/declared", "freeze_ms", at_most=5.0)
    judged = judge(Thresholds(ratio=TWENTY.ratio, growth=[growth], limit=[limit]), [row()])

    assert [verdict.missing for verdict in unmeasured(judged)] == [
        ("spark/transformWithState",),
        ("lakestate/declared",),
        ("lakestate/row with 5,000,000 keys",),
    ]
    assert unmeasured(judge(TWENTY, [row(), peer(row, 1.0)])) == []


def test_what_was_left_out_of_a_run_does_not_fail_it_but_measuring_nothing_does(row: Rows) -> None:
    both = Thresholds(
        ratio=[*TWENTY.ratio, Ratio("running_count", ["int"], 200_000, "lakestate/row", "spark/groupBy", 1)]
    )

    assert passed(judge(both, [row(), peer(row, 1.0)]))
    assert not passed(judge(both, [row()]))
    assert not passed(judge(both, []))


def test_thresholds_of_other_workloads_are_not_judged(row: Rows) -> None:
    assert judge(MEMORY, [row()]) == []


@pytest.mark.parametrize(("peak", "reached"), [(1536.0, True), (1536.1, False), (float("inf"), False)])
def test_a_limit_holds_up_to_its_figure(row: Rows, peak: float, reached: bool) -> None:
    (verdict,) = judge(MEMORY, [row(workload="worker_memory", peak_rss_mb=peak)])

    assert (verdict.measured, verdict.reached) == (peak, reached)


def test_a_limit_of_what_an_engine_does_not_tell_is_open(row: Rows) -> None:
    limits = Thresholds(limit=[Limit("running_count", "lakestate/row", "freeze_ms", at_most=5.0)])
    (silent,) = judge(limits, [row()])
    (told,) = judge(limits, [row(), row(keys=7, freeze_ms=5.5)])

    assert (silent.measured, silent.note) == (None, "not measured in this run")
    assert (told.measured, told.reached) == (5.5, False)


def test_a_ratio_is_taken_between_rows_of_one_case(row: Rows) -> None:
    results = [row(), row(key_type="string", records_per_second=300.0), peer(row, 100.0, key_type="string")]

    assert ratio_to(results[1], "spark/transformWithState", results) == 3.0
    assert ratio_to(results[0], "spark/transformWithState", results) is None


def test_the_file_names_engines_that_exist() -> None:
    thresholds = load()
    named = {t.of for t in [*thresholds.ratio, *thresholds.limit, *thresholds.memory, *thresholds.growth]}
    named |= {t.to for t in thresholds.ratio} | {t.beyond for t in [*thresholds.memory, *thresholds.growth] if t.beyond}

    assert named == {engine.label for engine in CONTENDERS.values()}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_every_contender_of_a_stream_has_a_threshold(workload: Workload) -> None:
    ratios = [one for one in load().ratio if (one.workload, one.epoch_records) == (workload.name, 1_000_000)]
    pairs = {(one.of, one.to) for one in ratios if "int" in one.key_types}

    assert {label for pair in pairs for label in pair} == {CONTENDERS[name].label for name in workload.engines}
    assert pairs >= {
        ("lakestate/row", "flink/python/thread"),
        ("lakestate/row", "flink/java/rocksdb"),
        ("lakestate/row/rocksdb", "flink/java/rocksdb"),
    }


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_what_a_task_does_after_its_last_record_is_limited_in_every_form(workload: Workload) -> None:
    limits = [one for one in load().limit if (one.workload, one.figure) == (workload.name, "freeze_ms")]

    ours = [CONTENDERS[name] for name in workload.engines if CONTENDERS[name].engine == "lakestate"]
    assert sorted(one.of for one in limits) == sorted(engine.label for engine in ours)
    assert {one.at_most for one in limits} == {5.0}


def test_every_pair_has_one_threshold() -> None:
    pairs = [(one.workload, tuple(one.key_types), one.keys, one.epoch_records, one.of, one.to) for one in load().ratio]

    assert len(pairs) == len(set(pairs))


def test_a_misspelt_threshold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text('[[limit]]\nworkload = "w"\nof = "e"\nfigure = "peak_rss_mb"\nat_least = 1.0\n')

    with pytest.raises(msgspec.ValidationError):
        load([path])


def test_growth_is_what_more_keys_cost_beyond_what_they_cost_another(row: Rows) -> None:
    growth = Growth(workload="w", of="lakestate/a", beyond="lakestate/b", few=10, many=1000, at_most=1.3)

    def verdict(*speeds: float, equal: bool = True) -> Verdict:
        sizes = ((name, keys) for name in ("a", "b") for keys in (10, 1000))
        rows = [
            row(workload="w", engine="lakestate", form=name, keys=keys, records_per_second=speed, results_equal=equal)
            for (name, keys), speed in zip(sizes, speeds, strict=False)
        ]
        [judged] = judge(Thresholds(growth=[growth]), rows)
        return judged

    assert verdict(100, 50, 1000, 500).measured == 1.0
    assert verdict(100, 40, 1000, 500).reached
    assert not verdict(100, 38, 1000, 500).reached
    assert not verdict(100, 50, 1000, 500, equal=False).reached
    assert verdict(100, 50, 1000).measured is None


def test_growth_is_taken_in_epochs_of_one_size_and_the_worst_one_counts(row: Rows) -> None:
    growth = Growth(workload="w", of="lakestate/a", few=10, many=1000, at_most=1.5)

    def measured(*speeds: tuple[int, int, float]) -> float | None:
        rows = [
            row(workload="w", engine="lakestate", form="a", keys=keys, epoch_records=size, records_per_second=speed)
            for keys, size, speed in speeds
        ]
        [judged] = judge(Thresholds(growth=[growth]), rows)
        return judged.measured

    assert measured((10, 5, 100), (1000, 5, 80), (1000, 20, 10)) == 1.25
    assert measured((10, 5, 100), (1000, 20, 80)) is None
    assert measured((10, 5, 100), (1000, 5, 50), (10, 20, 100), (1000, 20, 80)) == 2.0
    assert measured((10, 20, 100), (1000, 20, 50), (10, 50, 100), (1000, 50, 80)) == 2.0


def test_growth_alone_is_what_more_keys_cost(row: Rows) -> None:
    growth = Growth(workload="w", of="lakestate/a", few=10, many=1000, at_most=1.5)

    def verdict(few: float, many: float) -> Verdict:
        rows = [
            row(workload="w", engine="lakestate", form="a", keys=keys, records_per_second=speed)
            for keys, speed in ((10, few), (1000, many))
        ]
        [judged] = judge(Thresholds(growth=[growth]), rows)
        return judged

    assert verdict(150, 100).measured == 1.5
    assert verdict(150, 100).reached
    assert not verdict(152, 100).reached
    assert "than one of" not in verdict(150, 100).name


def test_memory_beyond_a_bare_worker_is_held_against_what_rocksdb_may_use(row: Rows) -> None:
    memory = Memory(workload="worker_memory", of="lakestate/a", beyond="lakestate/b", at_most=1.0)

    def verdict(
        of: float, beyond: float, limits: tuple[int | None, int | None] = (16, 16), equal: bool = True
    ) -> Verdict:
        rows = [
            row(workload="worker_memory", form=form, peak_rss_mb=peak, memory_mb=limit, results_equal=equal)
            for form, peak, limit in zip("ab", (of, beyond), limits, strict=True)
        ]
        [judged] = judge(Thresholds(memory=[memory]), rows)
        return judged

    assert verdict(216, 200) == Verdict(verdict(216, 200).name, 1.0, True)
    assert not verdict(217, 200).reached
    assert not verdict(216, 200, equal=False).reached
    assert verdict(216, 200, limits=(16, 32)).note == "not measured in this run"
    assert verdict(216, 200, limits=(None, None)).note == "not measured in this run"
    assert judge(Thresholds(memory=[memory]), [row(workload="worker_memory", form="a")])[0].measured is None
