"""Compares the function of the fraud job with the recount, in the harness: without Spark and without a JVM."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakestate.examples import compare
from lakestate.examples.fraud import data, job
from lakestate.examples.fraud.truth import compute_truth, read_line
from state_engine.api import Duration, TimeDomain, WatermarkStrategy
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

PARTS = 4
LAST = (1 << 63) - 1
TAGS = {tag.tag_id: tag for tag in (job.SESSIONS, job.LATE, job.MALFORMED)}
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

Harness = KeyedOneInputStreamOperatorTestHarness
Rows = dict[str, list[tuple[Any, ...]]]


def harness_of(parallelism: int = 1, backend: str = "heap") -> Harness:
    return KeyedOneInputStreamOperatorTestHarness(
        job.Card(),
        "card",
        f"{job.FIELDS}, malformed string",
        job.ALERTS,
        parallelism=parallelism,
        max_parallelism=128,
        side_outputs=list(TAGS.values()),
        state_backend=backend,
        watermark_strategy=WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)),
    )


def record_of(line: str) -> dict[str, Any]:
    """Reads a line as Spark does: one that is no payment is only its text."""
    given, reason = read_line(line)
    if given is None:
        return dict.fromkeys(("at", "id", "card", "merchant", "country", "amount")) | {"malformed": line}
    if reason:
        given = json.loads(line, parse_float=Decimal)
    at = datetime.datetime.fromisoformat(given["at"])
    fields = {name: given.get(name) for name in ("id", "card", "merchant", "country", "amount")}
    return {"at": at, **fields, "malformed": None}


def feed(harness: Harness, lines: list[str]) -> None:
    """Processes the lines of a file as one epoch, in order of event time."""
    records = [(ms_of(record["at"]), record) for record in map(record_of, lines)]
    records.sort(key=lambda pair: (pair[0], pair[1]["id"] or 0))
    harness.process_elements([record for _, record in records], [ms for ms, _ in records])


def ms_of(time: datetime.datetime | None) -> int:
    return 0 if time is None else round(time.timestamp() * 1_000)


def outputs(harness: Harness) -> Rows:
    side = {name: list(harness.get_side_output(tag)) for name, tag in TAGS.items()}
    return {"alerts": list(harness.extract_output_values())} | side


def columns_of(name: str) -> list[str]:
    kind = TAGS[name].type_info if name in TAGS else parse_columns_ddl(job.ALERTS)
    assert kind is not None
    return list(kind.names)


def check(made: Rows, truth: compare.Truth) -> None:
    for name, rows in made.items():
        expected = truth.outputs[name]
        assert expected.num_rows, name
        actual = pa.Table.from_pylist([dict(zip(columns_of(name), row, strict=True)) for row in rows], expected.schema)
        assert compare.compare(actual, expected, truth.keys[name]) == (0, 0, 0), name


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("payments")
    data.write_files(PARTS, folder)
    return folder


@pytest.mark.parametrize("backend", ["heap", pytest.param("rocksdb", marks=pytest.mark.slow)])
def test_function_and_recount_agree_after_restores_at_any_parallelism(files: Path, backend: str) -> None:
    made: Rows = {name: [] for name in ("alerts", *TAGS)}
    harness = harness_of(2, backend)
    for number, parallelism in zip(range(1, PARTS + 1), (3, 1, 2, 4), strict=True):
        feed(harness, data.read_part(number))
        for name, rows in outputs(harness).items():
            made[name] += rows
        snapshot = harness.snapshot()
        harness.close()
        harness = harness_of(parallelism, backend)
        harness.initialize_state(snapshot)
    truth = compute_truth(files)
    states = snapshot.states()
    for name in ("recent", "place", "total", "session"):
        expected = {row["card"]: plain(row["value"]) for row in truth.states["card", name].to_pylist()}
        # A session whose time has come is still there: its timer fires in the next epoch.
        due = set(states[name]) - set(expected)
        assert not due or name == "session"
        assert {card: plain(value) for card, value in states[name].items() if card not in due} == expected, name
    harness.process_watermark(LAST)
    made["sessions"] += outputs(harness)["sessions"]
    assert harness.num_event_time_timers() == 0
    assert harness.snapshot().states()["session"] == {}
    harness.close()
    check(made, compute_truth(files, drained=True))


def plain(value: Any) -> Any:
    """Returns structs, which are dicts or rows, as tuples."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    return tuple(value.values()) if isinstance(value, dict) else tuple(value)


def payment(second: float, amount: int | str = 10, *, of: str = "ann", at: str = "shop", land: str = "DE") -> str:
    when = (START + datetime.timedelta(seconds=second)).isoformat()
    names = f'"card": "{of}", "merchant": "{at}", "country": "{land}"'
    return f'{{"at": "{when}", "id": {int(second * 1_000)}, {names}, "amount": {amount}}}'


def rules(harness: Harness) -> list[tuple[int, str, str]]:
    return [(number // 1_000, rule, detail) for _, number, *_, rule, detail in harness.extract_output_values()]


def test_each_rule_by_hand() -> None:
    with harness_of() as harness:
        feed(harness, [payment(100 * n) for n in range(5)])
        feed(harness, [payment(600, 80), payment(700, "173.34", land="FR"), payment(800, 1_000, of="bob")])
        feed(harness, [payment(800, 2, of="bob")])
        assert rules(harness) == [
            (700, "large", "6 payments before, of 130.00"),
            (700, "country", "DE to FR"),
            (800, "merchant", "1002.00 within the hour"),
        ]


def test_ten_payments_in_a_minute_are_many() -> None:
    with harness_of() as harness:
        feed(harness, [payment(6.5 * n) for n in range(12)])
        assert [number for number, *_ in rules(harness)] == [58, 65, 71]
        assert len(harness.snapshot().states()["recent"]["ann"]) == 10


@pytest.mark.parametrize(("hour", "found"), [(3_661.001, 0), (3_500, 1)])
def test_what_was_spent_is_forgotten_after_an_hour_of_event_time(hour: float, found: int) -> None:
    with harness_of() as harness:
        feed(harness, [payment(0, 900)])
        feed(harness, [payment(hour, 200)])
        # One hour after the first payment plus the bound of a minute, the watermark has passed its end.
        assert len([rule for rule in rules(harness) if rule[1] == "merchant"]) == found


def test_each_payment_moves_the_timer_that_ends_the_session() -> None:
    with harness_of() as harness:
        feed(harness, [payment(0), payment(600)])
        assert harness.snapshot().timers(TimeDomain.EVENT_TIME) == {"ann": [ms_of(START) + 1_500_000]}
        feed(harness, [payment(570, 5)])  # out of order, and in time: the session ends when it did
        harness.process_watermark(ms_of(START) + 1_499_999)
        assert harness.get_side_output(job.SESSIONS) == []
        harness.process_watermark(ms_of(START) + 1_500_000)
        ten_minutes = START + datetime.timedelta(minutes=10)
        assert harness.get_side_output(job.SESSIONS) == [("ann", START, ten_minutes, 3, Decimal(25))]


@pytest.mark.parametrize(("second", "late"), [(538, True), (539, False)])
def test_a_payment_at_or_below_the_watermark_is_late_and_changes_nothing(second: int, late: bool) -> None:
    with harness_of() as harness:
        feed(harness, [payment(599, of="bob")])  # the watermark is a minute and two milliseconds lower
        feed(harness, [payment(second)])
        assert [row[2] for row in harness.get_side_output(job.LATE)] == ["ann"] * late
        assert ("ann" in harness.snapshot().states()["total"]) is not late


def test_malformed_lines_are_kept_as_they_came() -> None:
    with harness_of() as harness:
        feed(harness, ["no JSON", payment(0).replace('"merchant"', '"shop"')])
        harness_rows = harness.get_side_output(job.MALFORMED)
    assert sorted(reason for _, reason in harness_rows) == ["not a payment in JSON", "without merchant"]
    assert "no JSON" in dict(harness_rows)
