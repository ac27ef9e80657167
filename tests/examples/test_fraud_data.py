"""The generated payments: the same on every machine, partly late, partly malformed."""

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakestate.examples.fraud import data
from lakestate.examples.fraud.truth import read_line

PARTS = 6


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [line for number in range(1, PARTS + 1) for line in data.read_part(number)]


def test_the_first_lines_are_what_they_always_were(lines: list[str]) -> None:
    assert lines[:2] == FIRST


def test_a_part_does_not_depend_on_the_parts_read_before(lines: list[str]) -> None:
    data._made_in.cache_clear()
    assert data.read_part(PARTS) == lines[-len(data.read_part(PARTS)) :]


def test_one_line_in_two_hundred_is_malformed_in_one_of_four_ways(lines: list[str]) -> None:
    reasons = Counter(reason for _, reason in map(read_line, lines) if reason)
    assert set(reasons) == {"not a payment in JSON", "without card"}
    assert 0.003 < reasons.total() / len(lines) < 0.007
    broken = [line for line in lines if read_line(line)[1] == "not a payment in JSON"]
    kinds = {"cut": 0, "text": 0, "amount": 0}
    for line in broken:
        kinds["text" if line[0] != "{" else "amount" if line[-1] == "}" else "cut"] += 1
    assert all(kinds.values()), kinds


def test_some_six_in_a_hundred_are_out_of_order_and_a_few_of_them_late(lines: list[str]) -> None:
    times = [datetime.fromisoformat(json.loads(line)["at"]) for line in lines if not read_line(line)[1]]
    newest, behind = times[0], []
    for time in times:
        behind.append(newest - time)
        newest = max(newest, time)
    out_of_order = [one for one in behind if one > timedelta()]
    assert 0.04 < len(out_of_order) / len(times) < 0.08
    assert 0 < sum(one > timedelta(minutes=1) for one in out_of_order) < 0.3 * len(out_of_order)
    assert max(behind) <= timedelta(minutes=10, seconds=1)


def test_a_number_is_given_once(lines: list[str]) -> None:
    numbers = [json.loads(line)["id"] for line in lines if not read_line(line)[1]]
    assert len(set(numbers)) == len(numbers)


def test_parts_begin_with_one() -> None:
    with pytest.raises(IndexError, match="no part 0"):
        data.read_part(0)


def test_the_command_adds_files_to_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for parts in ("2", "1"):
        monkeypatch.setattr("sys.argv", ["data", str(tmp_path / "in"), "--parts", parts])
        data.main()
    assert "1 files, the last one is payments-00003.json" in capsys.readouterr().out
    files = sorted((tmp_path / "in").iterdir())
    assert [file.name for file in files] == [f"payments-0000{number}.json" for number in (1, 2, 3)]
    assert [file.read_text().splitlines() for file in files] == [data.read_part(number) for number in (1, 2, 3)]


FIRST = [
    '{"at": "2026-01-01T00:00:21.506Z", "id": 795, "card": "c196", "merchant": "m16", "country": "DE", "amount": 3.17}',
    '{"at": "2026-01-01T00:00:22.857Z", "id": 107, "card": "c594", "merchant": "m00", "country": "NL", "amount": 3.99}',
]
