"""Compares the batch recomputation with a slow and obvious one, and with cases that were computed by hand."""

import datetime
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakestate.examples.compare import Truth
from lakestate.examples.flights import data
from lakestate.examples.flights.truth import compute_truth

START = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_time", pa.timestamp("us", tz="UTC")),
    ("carrier", pa.string()),
    ("flight", pa.int32()),
    ("tailnum", pa.string()),
    ("origin", pa.string()),
    ("dest", pa.string()),
    ("dep_time", pa.int32()),
    ("arr_delay", pa.float64()),
]
STREAM = pa.schema(FIELDS)

Flight = dict[str, Any]


def flight(
    minute: int, tailnum: str | None = "N1", dep: int | None = 700, delay: float | None = 0.0, **other: Any
) -> Flight:
    """Makes a flight, by default punctual."""
    at = START + datetime.timedelta(minutes=minute)
    usual = {"event_time": at, "carrier": "AA", "flight": 1, "tailnum": tailnum, "origin": "JFK", "dest": "SEA"}
    return {**usual, "dep_time": dep, "arr_delay": delay, **other}


def truth_of(flights: list[Flight], folder: Path, per_file: int = 3) -> Truth:
    data.write_files(pa.Table.from_pylist(flights, STREAM), folder, per_file)
    return compute_truth(folder)


def in_order(table: pa.Table) -> pa.Table:
    """Returns the rows in the order of the stream."""
    return table.sort_by([(key, "ascending") for key in data.ORDER])


def column(table: pa.Table, name: str) -> list[Any]:
    return list(in_order(table)[name].to_pylist())


def state(truth: Truth, uid: str, name: str) -> dict[Any, Any]:
    rows = truth.states[uid, name].to_pylist()
    keyed = {tuple(v for k, v in row.items() if k != "value"): row["value"] for row in rows}
    assert len(keyed) == len(rows)
    return {key[0] if len(key) == 1 else key: value for key, value in keyed.items()}


class TestByHand:
    def test_a_cancelled_flight_is_no_leg_and_shows_in_the_next_one(self, tmp_path: Path) -> None:
        truth = truth_of([flight(0), flight(1, dep=None, delay=None), flight(2)], tmp_path)
        assert column(truth.outputs["legs"], "legs") == [1, 2]
        assert column(truth.outputs["legs"], "cancelled") == [0, 1]
        assert state(truth, "aircraft", "cancelled") == {"N1": 1}
        assert state(truth, "aircraft", "routes") == {("N1", "SEA"): 2}

    def test_an_aircraft_that_only_cancelled_has_no_other_state(self, tmp_path: Path) -> None:
        truth = truth_of([flight(0, dep=None, delay=None)], tmp_path)
        assert truth.outputs["legs"].num_rows == 0
        assert {name for (_, name), table in truth.states.items() if table.num_rows} == {"cancelled"}

    @pytest.mark.parametrize("dep", [None, 700])
    def test_without_tail_number_a_flight_only_goes_to_the_side(self, tmp_path: Path, dep: int | None) -> None:
        truth = truth_of([flight(0, tailnum=None, dep=dep)], tmp_path)
        assert column(truth.outputs["no_tailnum"], "dep_time") == [dep]
        assert truth.outputs["legs"].num_rows == truth.outputs["carriers"].num_rows == 0
        assert not any(table.num_rows for table in truth.states.values())

    def test_a_diverted_flight_is_a_leg_but_leaves_delay_and_streak(self, tmp_path: Path) -> None:
        flights = [flight(0, delay=None), flight(1, delay=20.0), flight(2, delay=None), flight(3, delay=30.0)]
        truth = truth_of(flights, tmp_path)
        assert column(truth.outputs["legs"], "rolling_delay") == [None, 20.0, 20.0, 25.0]
        assert column(truth.outputs["legs"], "late_streak") == [0, 1, 1, 2]
        assert column(truth.outputs["carriers"], "late_legs") == [0, 1, 1, 2]

    def test_an_aircraft_that_never_arrived_has_legs_and_routes_only(self, tmp_path: Path) -> None:
        truth = truth_of([flight(0, delay=None)], tmp_path)
        assert {name for (_, name), table in truth.states.items() if table.num_rows} == {"legs", "routes", "record"}
        assert state(truth, "carrier", "record") == {"AA": {"legs": 1, "late_legs": 0, "worst_late_streak": 0}}

    def test_fifteen_minutes_are_not_late(self, tmp_path: Path) -> None:
        truth = truth_of([flight(0, delay=16.0), flight(1, delay=15.0), flight(2, delay=16.0)], tmp_path)
        assert column(truth.outputs["legs"], "late_streak") == [1, 0, 1]
        assert state(truth, "aircraft", "late_streak") == {"N1": 1}
        assert state(truth, "carrier", "record") == {"AA": {"legs": 3, "late_legs": 2, "worst_late_streak": 1}}

    def test_the_list_keeps_the_last_five_in_order(self, tmp_path: Path) -> None:
        delays = [7.0, 3.0, None, 9.0, 1.0, 5.0, -4.0]
        truth = truth_of([flight(i, delay=d) for i, d in enumerate(delays)], tmp_path)
        assert state(truth, "aircraft", "rolling_delay") == {"N1": [3.0, 9.0, 1.0, 5.0, -4.0]}
        assert column(truth.outputs["legs"], "rolling_delay") == [7.0, 5.0, 5.0, 19 / 3, 5.0, 5.0, 14 / 5]

    def test_at_one_instant_carrier_flight_and_origin_decide(self, tmp_path: Path) -> None:
        flights = [
            flight(0, carrier="B", delay=16.0),
            flight(0, carrier="A", flight=2),
            flight(0, carrier="A", flight=1),
        ]
        truth = truth_of(flights, tmp_path)
        assert column(truth.outputs["legs"], "legs") == [1, 2, 3]
        assert column(truth.outputs["legs"], "late_streak") == [0, 0, 1]

    def test_an_aircraft_may_change_carriers(self, tmp_path: Path) -> None:
        truth = truth_of([flight(0, delay=16.0), flight(1, carrier="DL", delay=16.0), flight(2)], tmp_path)
        assert column(truth.outputs["carriers"], "worst_late_streak") == [1, 2, 1]


def slowly(flights: list[Flight]) -> tuple[list[Flight], list[Flight], dict[str, dict[Any, Any]]]:
    """Computes the truth flight by flight, each time from all flights before."""
    legs: list[Flight] = []
    carriers: list[Flight] = []
    cancelled: dict[str, int] = defaultdict(int)
    for one in flights:
        if one["tailnum"] is None:
            continue
        if one["dep_time"] is None:
            cancelled[one["tailnum"]] += 1
            continue
        mine = [leg for leg in legs if leg["tailnum"] == one["tailnum"]] + [one]
        delays = [leg["arr_delay"] for leg in mine if leg["arr_delay"] is not None]
        streak = 0
        for delay in delays:
            streak = streak + 1 if delay > 15 else 0
        leg = {k: one[k] for k in ("event_time", "carrier", "flight", "origin", "tailnum", "dest", "arr_delay")}
        leg |= {
            "legs": len(mine),
            "cancelled": cancelled[one["tailnum"]],
            "rolling_delay": sum(delays[-5:]) / len(delays[-5:]) if delays else None,
            "late_streak": streak,
            "route_legs": sum(other["dest"] == one["dest"] for other in mine),
            "last_five": delays[-5:],
        }
        legs.append(leg)
        same = [other for other in legs if other["carrier"] == one["carrier"]]
        carrier = {k: one[k] for k in ("event_time", "carrier", "flight", "origin")}
        carrier["legs"] = len(same)
        carrier["late_legs"] = sum(other["arr_delay"] is not None and other["arr_delay"] > 15 for other in same)
        carrier["worst_late_streak"] = max(other["late_streak"] for other in same)
        carriers.append(carrier)
    states: dict[str, dict[Any, Any]] = {
        "legs": {leg["tailnum"]: leg["legs"] for leg in legs},
        "cancelled": {tailnum: n for tailnum, n in cancelled.items() if n},
        "rolling_delay": {leg["tailnum"]: leg["last_five"] for leg in legs if leg["last_five"]},
        "late_streak": {leg["tailnum"]: leg["late_streak"] for leg in legs if leg["last_five"]},
        "routes": {(leg["tailnum"], leg["dest"]): leg["route_legs"] for leg in legs},
        "record": {c["carrier"]: dict(list(c.items())[4:]) for c in carriers},
    }
    for leg in legs:
        del leg["last_five"]
    return legs, carriers, states


@pytest.fixture(scope="module")
def all_flights() -> pa.Table:
    return data.read_flights()


def test_the_first_flights_agree_with_the_obvious_computation(all_flights: pa.Table, tmp_path: Path) -> None:
    flights = all_flights.slice(0, 4_000).to_pylist()
    truth = truth_of(flights, tmp_path, per_file=1_500)
    legs, carriers, states = slowly(flights)
    assert truth.records == 4_000
    assert in_order(truth.outputs["legs"]).to_pylist() == legs
    assert in_order(truth.outputs["carriers"]).to_pylist() == carriers
    assert truth.outputs["no_tailnum"].num_rows == sum(f["tailnum"] is None for f in flights) > 0
    for (uid, name), table in truth.states.items():
        assert state(truth, uid, name) == states[name], name
        assert table.num_rows == len(states[name])
    assert any(len(delays) == 5 for delays in states["rolling_delay"].values())
    assert max(states["late_streak"].values()) > 1
