"""This project does what PyFlink 2.3 does: scenarios recorded from it are replayed in the harness."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from golden_file import by_key, groups, load, step_to_json
from not_as_recorded import (
    DIFFERENT,
    IN_EVERY_SUBTASK,
    NOT_YET,
    ONE_AFTER_THE_OTHER,
    OTHER_TIMES,
    WRONG_WITHIN_AN_EPOCH,
)
from replay import (
    Found,
    NotReplayedYet,
    each_step,
    joined,
    recorded_outputs,
    records_together,
    replay,
    replay_times,
    scenario_of,
    scenarios_of,
)
from scenario import Scenario

from state_engine.api import EmbeddedRocksDBStateBackend

GROUPS = groups()
RECORDED = {group: load(group) for group in GROUPS}
SCRIPT = ("mode", "key", "input", "input2", "output", "needs")
SCENARIOS = [(group, name) for group in GROUPS for name in RECORDED[group]]


def missing(group: str, name: str) -> list[str]:
    return [NOT_YET[feature] for feature in RECORDED[group][name]["needs"] if feature in NOT_YET]


def marked(group: str, name: str, wrong: dict[str, str]) -> Any:
    absent, id_ = missing(group, name), f"{group}.{name}"
    marks = []
    if absent:
        reason = f"not yet: {', '.join(absent)}"
        marks = [pytest.mark.xfail(reason=reason, strict=True, raises=(ImportError, NotReplayedYet))]
    elif id_ in wrong:
        marks = [pytest.mark.xfail(reason=wrong[id_], strict=True, raises=AssertionError)]
    return pytest.param(group, name, marks=marks, id=id_)


def every_scenario(wrong: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("group", "name"), [marked(*one, wrong) for one in SCENARIOS])


@every_scenario({})
def test_gives_what_flink_gave(group: str, name: str) -> None:
    scenario = scenario_of(group, name)
    assert_recorded(group, scenario, each_step(scenario))


@every_scenario(WRONG_WITHIN_AN_EPOCH | ONE_AFTER_THE_OTHER)
def test_gives_the_same_with_records_together(group: str, name: str) -> None:
    scenario = scenario_of(group, name)
    assert_recorded(group, scenario, records_together(scenario))


@pytest.mark.slow
@every_scenario(IN_EVERY_SUBTASK)
def test_gives_the_same_with_a_restart_at_another_parallelism_after_every_step(group: str, name: str) -> None:
    scenario = scenario_of(group, name)
    assert_recorded(group, scenario, each_step(scenario), restarts=True)


@cache
def with_times(group: str, name: str) -> Any:
    return replay_times(scenario_of(group, name))


@every_scenario(OTHER_TIMES)
def test_rows_have_flinks_timestamps(group: str, name: str) -> None:
    """They equal those of one of PyFlink's modes."""
    recorded = RECORDED[group][name]
    id_ = f"{group}.{name}"
    other_rows = DIFFERENT[id_].rows if id_ in DIFFERENT else {}
    for number, (step, (rows, _)) in enumerate(zip(recorded["steps"], with_times(group, name), strict=True)):
        if number not in other_rows:
            modes = [
                step,
                *(step[mode] for mode in ("in_thread_mode", "in_process_mode") if "rows" in step.get(mode, {})),
            ]
            actual, *wanted = [[list(timed) for timed in of] for of in (rows, *(mode["rows"] for mode in modes))]
            if recorded["key"]:
                actual, *wanted = map(by_key_of_row, (actual, *wanted))
            assert actual in wanted, f"step {number}: {step['step']}"


@every_scenario({})
def test_watermarks_go_on_as_in_flink(group: str, name: str) -> None:
    steps = RECORDED[group][name]["steps"]
    actual = [watermark for _, watermark in with_times(group, name)]
    assert actual == [(step.get("watermarks") or [None])[-1] for step in steps]


def by_key_of_row(timed: list[Any]) -> list[Any]:
    return [row for _, row in by_key([(row[0], [row, time]) for row, time in timed])]


@pytest.fixture
def rocksdb(tmp_path: Path) -> EmbeddedRocksDBStateBackend:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(tmp_path))
    return backend


@pytest.mark.slow
@every_scenario({})
def test_gives_the_same_on_rocksdb(group: str, name: str, rocksdb: EmbeddedRocksDBStateBackend) -> None:
    scenario = scenario_of(group, name)
    assert_recorded(group, scenario, each_step(scenario), backends=[rocksdb])


@pytest.mark.slow
@every_scenario(IN_EVERY_SUBTASK)
def test_gives_the_same_with_a_restart_on_the_other_backend_after_every_step(
    group: str, name: str, rocksdb: EmbeddedRocksDBStateBackend
) -> None:
    scenario = scenario_of(group, name)
    assert_recorded(group, scenario, each_step(scenario), restarts=True, backends=[rocksdb, "heap"])


@pytest.mark.parametrize("group", GROUPS)
def test_scripts_are_those_that_were_recorded(group: str) -> None:
    """A changed script must be recorded again: scripts/record_flink_scenarios.py."""
    try:
        scenarios = scenarios_of(group)
    except ImportError:
        if not any(missing(group, name) for name in RECORDED[group]):
            raise
        pytest.skip("its names are not there yet")
    assert {scenario.name: script_of(scenario) for scenario in scenarios} == {
        name: {field: value for field, value in recorded.items() if field in SCRIPT} | {"steps": steps_of(recorded)}
        for name, recorded in RECORDED[group].items()
    }


def script_of(scenario: Scenario) -> dict[str, Any]:
    steps = [step_to_json(step) for step in scenario.steps]
    actual = {field: getattr(scenario, field) for field in SCRIPT} | {"needs": list(scenario.needs), "steps": steps}
    return {field: value for field, value in actual.items() if field != "input2" or value is not None}


def steps_of(recorded: dict[str, Any]) -> list[dict[str, Any]]:
    return [step["step"] for step in recorded["steps"]]


def test_the_tables_name_what_there_is() -> None:
    needed = {feature for group in GROUPS for recorded in RECORDED[group].values() for feature in recorded["needs"]}
    assert set(NOT_YET) <= needed, "NOT_YET names a feature that no scenario needs"
    assert {*DIFFERENT, *WRONG_WITHIN_AN_EPOCH, *OTHER_TIMES} <= {f"{group}.{name}" for group, name in SCENARIOS}


def assert_recorded(group: str, scenario: Scenario, parts: list[list[Any]], **how: Any) -> None:
    actual = replay(scenario, parts, **how)
    tags = [tag.tag_id for tag in scenario.side_outputs]
    expected = list(recorded_outputs(RECORDED[group][scenario.name]["steps"], tags))
    if f"{group}.{scenario.name}" in DIFFERENT:
        for number, rows in DIFFERENT[f"{group}.{scenario.name}"].rows.items():
            assert rows != expected[number]["rows"], "no longer different"
            expected[number]["rows"] = rows
    begin = 0
    for part, outputs in zip(parts, actual, strict=True):
        wanted = joined(expected[begin : begin + len(part)])
        assert comparable(outputs, scenario) == comparable(wanted, scenario), f"step {begin}: {part}"
        begin += len(part)


def comparable(outputs: Found, scenario: Scenario) -> Found:
    """Sorts the rows by key, as their order between keys is undefined."""
    return {name: by_key(rows) if scenario.key else rows for name, rows in outputs.items()}
