"""The site's clicks are endless and the same everywhere, come out of order, and each part can be made by itself."""

import itertools
import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakestate.examples.visits import data
from lakestate.examples.visits.truth import compute_truth

PAUSE_MS, HOUR_MS = 1_800_000, 3_600_000
DELAY_MS = data.LONGEST_DELAY // timedelta(milliseconds=1)


@pytest.fixture(scope="module")
def parts() -> list[list[data.Click]]:
    return [data.read_part(number) for number in range(1, 21)]


@pytest.fixture(scope="module")
def clicks(parts: list[list[data.Click]]) -> list[data.Click]:
    return [click for part in parts for click in part]


def test_clicks_arrive_in_order_and_happened_up_to_a_minute_before(clicks: list[data.Click]) -> None:
    assert all(a.arrived_ms <= b.arrived_ms for a, b in itertools.pairwise(clicks))
    assert all(0 <= click.arrived_ms - click.at_ms < DELAY_MS for click in clicks)
    assert any(a.at_ms > b.at_ms for a, b in itertools.pairwise(clicks)), "they come out of order"
    assert len({click.number for click in clicks}) == len(clicks)


def test_a_part_holds_its_six_hours_and_depends_on_no_other(parts: list[list[data.Click]]) -> None:
    data._begun_in.cache_clear()
    assert [data.read_part(number) for number in (20, 3, 4)] == [parts[19], parts[2], parts[3]]
    with pytest.raises(IndexError, match="no part 0"):
        data.read_part(0)


def test_what_is_sent(clicks: list[data.Click]) -> None:
    sent = [json.loads(click.value()) for click in clicks[:100]]
    assert {tuple(click) for click in sent} == {("number", "page", "at")}
    assert sent[0]["at"].startswith("2026-01-01T00:")
    assert Counter(click.page for click in clicks).keys() == set(data.PAGES)


def test_the_truth_is_that_of_a_plain_loop(clicks: list[data.Click]) -> None:
    visits: list[tuple[str, list[data.Click]]] = []
    for user in sorted({click.user for click in clicks}):
        for click in sorted((one for one in clicks if one.user == user), key=lambda one: (one.at_ms, one.number)):
            if not visits or visits[-1][0] != user or click.at_ms - visits[-1][1][-1].at_ms > PAUSE_MS:
                visits.append((user, []))
            visits[-1][1].append(click)
    rows = [(user, of[0].at_ms, of[-1].at_ms + PAUSE_MS, len(of), of[0].page, of[-1].page) for user, of in visits]
    entries: dict[tuple[str, int], list[int]] = defaultdict(list)
    for _, _, end, number, entry, _ in rows:
        entries[entry, (end - 1) // HOUR_MS * HOUR_MS].append(number)

    truth = compute_truth(clicks)
    assert (truth.records, truth.keys.keys()) == (len(clicks), truth.outputs.keys())
    assert sorted(plain(truth.outputs["visits"])) == sorted(rows)
    hours = [(page, hour, hour + HOUR_MS, len(of), sum(of)) for (page, hour), of in entries.items()]
    assert sorted(plain(truth.outputs["entries"])) == sorted(hours)


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns rows with times as ms since the Unix epoch."""
    return [
        tuple(round(value.timestamp() * 1000) if isinstance(value, datetime) else value for value in row.values())
        for row in table.to_pylist()
    ]


def test_windows_that_the_watermark_has_not_passed_are_not_over(clicks: list[data.Click]) -> None:
    until = max(click.at_ms for click in clicks)
    ended = compute_truth(clicks, until).outputs
    for name, table in compute_truth(clicks).outputs.items():
        assert 0 < ended[name].num_rows < table.num_rows
