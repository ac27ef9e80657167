"""The expected results of the fraud job, recomputed in plain Python: one pass over the files, then card by card.

Only the meaning of the input is shared with the job, and one fact about the engine: a file is an epoch. Which records
are late depends on that, since the watermark with which an epoch begins is computed from the epochs before.

Of the state `spent` the entries are expected that have not expired at the watermark. The time at which an expired entry
is removed is not specified.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lakestate.examples.compare import Truth

MS = timedelta(milliseconds=1)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
WINDOW = timedelta(minutes=5)
FIELDS = ("at", "id", "card", "merchant", "country", "amount")

_TIME, _MONEY, _TEXT, _LONG = pa.timestamp("us", tz="UTC"), pa.decimal128(18, 2), pa.string(), pa.int64()
_PAYMENT: list[tuple[str, Any]] = [
    ("at", _TIME), ("id", _LONG), ("card", _TEXT), ("merchant", _TEXT), ("country", _TEXT),
    ("amount", pa.decimal128(10, 2)),
]  # fmt: skip
_SESSION: list[tuple[str, Any]] = [("first", _TIME), ("last", _TIME), ("payments", _LONG), ("amount", _MONEY)]
_RECENT = pa.list_(pa.struct([("at", _TIME), ("merchant", _TEXT), ("amount", _MONEY)]))
_TABLES: dict[Any, list[tuple[str, Any]]] = {
    "alerts": [*_PAYMENT, ("rule", _TEXT), ("detail", _TEXT)],
    "sessions": [("card", _TEXT), *_SESSION],
    "late": _PAYMENT,
    "malformed": [("line", _TEXT), ("reason", _TEXT)],
    "merchants": [
        ("merchant", _TEXT), ("window_start", _TIME), ("window_end", _TIME), ("alerts", _LONG), ("amount", _MONEY),
    ],
    "late_alerts": [*_PAYMENT, ("rule", _TEXT), ("detail", _TEXT)],
    ("card", "recent"): [("card", _TEXT), ("value", _RECENT)],
    ("card", "spent"): [("card", _TEXT), ("user_key", _TEXT), ("value", _MONEY)],
    ("card", "place"): [("card", _TEXT), ("value", pa.struct([("country", _TEXT), ("at", _TIME)]))],
    ("card", "total"): [("card", _TEXT), ("value", pa.struct([("payments", _LONG), ("amount", _MONEY)]))],
    ("card", "session"): [("card", _TEXT), ("value", pa.struct(_SESSION))],
}  # fmt: skip

KEYS = {
    "alerts": ("id", "rule"),
    "sessions": ("card", "first"),
    "late": ("id",),
    "malformed": ("line",),
    "merchants": ("merchant", "window_start"),
    "late_alerts": ("id", "rule"),
    "card": ("card",),
}
"""The columns that identify a row: of an output by its name, of a state by its operator's uid."""


class Accepted(NamedTuple):
    """A payment that is in time, with the number of its file and the watermark with which its epoch began."""

    file: int
    watermark: datetime
    at: datetime
    id: int
    card: str
    merchant: str
    country: str
    amount: Decimal

    @property
    def fields(self) -> tuple[Any, ...]:
        return self[2:]

    @property
    def now(self) -> datetime:
        """The watermark that a function sees while it processes this payment."""
        return max(self.watermark, self.at - MINUTE - 2 * MS)


class Clock:
    """The watermark of one stream with a bound, from epoch to epoch."""

    def __init__(self, bound: timedelta) -> None:
        self._behind = bound + 2 * MS
        self.watermark = BEGINNING

    def advance(self, times: list[datetime]) -> None:
        self.watermark = max([self.watermark, *(self.behind(time) for time in times)])

    def behind(self, time: datetime) -> datetime:
        """Returns the watermark that follows from a record."""
        return time - self._behind


@dataclass
class Results:
    """Rows of all outputs and states, by name."""

    rows: dict[Any, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))

    def table(self, name: Any) -> pa.Table:
        names, types = zip(*_TABLES[name], strict=True)
        rows = [dict(zip(names, row, strict=True)) for row in self.rows[name]]
        return pa.Table.from_pylist(rows, pa.schema(list(zip(names, types, strict=True))))


def compute_truth(folder: Path, *, drained: bool = False, large: Callable[[int], int] = lambda file: 8) -> Truth:
    """Recomputes outputs and final states from all files in a folder.

    Args:
        folder: Of the files, one epoch each, in the order of their names.
        drained: The input has ended, so that all timers have fired. Otherwise those have that the watermark passed.
        large: How many times the mean a payment must be for the rule `large`, by number of the file.
    """
    results, clock, records = Results(), Clock(MINUTE), 0
    cards: dict[str, list[Accepted]] = defaultdict(list)
    for number, file in enumerate(sorted(folder.glob("*.json")), 1):
        epoch = []
        for line in file.read_text().splitlines():
            records += 1
            payment, reason = read_line(line)
            if reason:
                results.rows["malformed"].append((line if payment is None else json.dumps(payment), reason))
            else:
                epoch.append(Accepted(number, clock.watermark, *_typed(payment)))
        for accepted in sorted(epoch, key=lambda one: (one.at, one.id)):
            if accepted.at <= clock.watermark:
                results.rows["late"].append(accepted.fields)
            else:
                cards[accepted.card].append(accepted)
        clock.advance([one.at for one in epoch])

    until = datetime.max.replace(tzinfo=UTC) if drained else clock.watermark
    alerts: list[tuple[int, tuple[Any, ...]]] = []
    for card, payments in sorted(cards.items()):
        alerts += _alerts_of(payments, large)
        _sessions_of(card, payments, until, results)
        _states_of(card, payments, clock.watermark, results)
    results.rows["alerts"] = [alert for _, alert in alerts]
    _windows_of(alerts, results, drained=drained)
    outputs = {name: results.table(name) for name in _TABLES if isinstance(name, str)}
    states = {name: results.table(name) for name in _TABLES if isinstance(name, tuple)}
    return Truth(records, outputs, states, KEYS)


def read_line(line: str) -> tuple[dict[str, Any] | None, str]:
    """Returns the fields of a line, None if it is no payment in JSON; and what is wrong with it."""
    try:
        given = json.loads(line, parse_float=Decimal)
        Decimal(given["amount"])
    except (ValueError, ArithmeticError):
        return None, "not a payment in JSON"
    missing = [name for name in FIELDS if name not in given]
    if missing:
        at = str(datetime.fromisoformat(given["at"]))
        shown = {name: given.get(name) for name in FIELDS} | {"at": at, "malformed": None}
        return shown | {"amount": str(given["amount"])}, f"without {', '.join(missing)}"
    return given, ""


def _typed(payment: dict[str, Any] | None) -> tuple[Any, ...]:
    assert payment is not None
    at, *others = (payment[name] for name in FIELDS)
    return datetime.fromisoformat(at), *others


def _alerts_of(payments: list[Accepted], large: Callable[[int], int]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yields the alerts of a card in order, each with the number of its file."""
    total = Decimal()
    spent: dict[str, tuple[Decimal, datetime]] = {}
    for n, one in enumerate(payments):
        if n >= 5 and one.amount * n > large(one.file) * total:
            yield one.file, (*one.fields, "large", f"{n} payments before, of {total}")
        total += one.amount
        if n and payments[n - 1].country != one.country and one.at - payments[n - 1].at < HOUR:
            yield one.file, (*one.fields, "country", f"{payments[n - 1].country} to {one.country}")
        if n >= 9 and one.at - payments[n - 9].at <= MINUTE:
            yield one.file, (*one.fields, "many", f"10 payments since {payments[n - 9].at:%H:%M:%S}")
        spent[one.merchant] = _spent(spent.get(one.merchant), one), one.at
        if spent[one.merchant][0] > 1_000:
            yield one.file, (*one.fields, "merchant", f"{spent[one.merchant][0]} within the hour")


def _spent(before: tuple[Decimal, datetime] | None, one: Accepted) -> Decimal:
    """Returns what a card has spent at a merchant, given the sum before and when it last changed."""
    if before is None or before[1] + HOUR <= one.now:
        return one.amount
    return before[0] + one.amount


def _sessions_of(card: str, payments: list[Accepted], until: datetime, results: Results) -> None:
    sessions: list[list[Accepted]] = []
    for one in payments:
        last = max(p.at for p in sessions[-1]) if sessions else BEGINNING
        if one.at - last > 15 * MINUTE or last + 15 * MINUTE <= one.now:
            sessions.append([])
        sessions[-1].append(one)
    for session in sessions:
        times = [p.at for p in session]
        row = (min(times), max(times), len(session), sum((p.amount for p in session), Decimal()))
        if session is not sessions[-1] or max(times) + 15 * MINUTE <= until:
            results.rows["sessions"].append((card, *row))
        else:
            results.rows["card", "session"].append((card, dict(zip(dict(_SESSION), row, strict=True))))


def _states_of(card: str, payments: list[Accepted], watermark: datetime, results: Results) -> None:
    last = payments[-1]
    recent = [{"at": p.at, "merchant": p.merchant, "amount": p.amount} for p in payments[-10:]]
    results.rows["card", "recent"].append((card, recent))
    results.rows["card", "place"].append((card, {"country": last.country, "at": last.at}))
    total = {"payments": len(payments), "amount": sum((p.amount for p in payments), Decimal())}
    results.rows["card", "total"].append((card, total))
    spent: dict[str, tuple[Decimal, datetime]] = {}
    for p in payments:
        spent[p.merchant] = _spent(spent.get(p.merchant), p), p.at
    live = [(card, merchant, amount) for merchant, (amount, at) in spent.items() if at + HOUR > watermark]
    results.rows["card", "spent"] += live


def _windows_of(alerts: list[tuple[int, tuple[Any, ...]]], results: Results, *, drained: bool) -> None:
    """Adds the alerts of each merchant up in windows of five minutes, epoch by epoch."""
    windows: dict[tuple[str, datetime], list[tuple[Any, ...]]] = defaultdict(list)
    clock, by_file = Clock(timedelta(seconds=10)), defaultdict(list)
    for number, alert in alerts:
        by_file[number].append(alert)
    for number in sorted(by_file):
        for alert in by_file[number]:
            start = alert[0] - (alert[0] - BEGINNING) % WINDOW
            if start + WINDOW - MS <= clock.watermark:
                results.rows["late_alerts"].append(alert)
            else:
                windows[alert[3], start].append(alert)
        clock.advance([alert[0] for alert in by_file[number]])
    for (merchant, start), members in sorted(windows.items()):
        if drained or start + WINDOW - MS <= clock.watermark:
            amount = sum((alert[5] for alert in members), Decimal())
            results.rows["merchants"].append((merchant, start, start + WINDOW, len(members), amount))


__all__ = ["KEYS", "compute_truth", "read_line"]
