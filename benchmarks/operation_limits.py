"""Limits on the cost of operations: seconds, shares of a whole, and quotients of two rows of one run."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from benchmarks.model import Verdict
from benchmarks.operation_model import Operation


class Seconds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An operation may take at most `at_most` seconds, at each of these numbers of keys."""

    operation: str
    of: str
    keys: list[int]
    figure: Literal["median_seconds", "max_seconds"] = "median_seconds"
    parallelism: int | None = None
    at_most: float


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A share of a whole has a lower or an upper limit, at each of these numbers of keys."""

    operation: str
    of: str
    keys: list[int]
    figure: Literal["paired_ratio", "share_read"]
    parallelism: int | None = None
    at_least: float | None = None
    at_most: float | None = None


class Quotient(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits the quotient of a figure of two rows: of two engines, or (`to_keys`) of two numbers of keys."""

    operation: str
    of: str
    to: str
    keys: int
    to_keys: int | None = None
    figure: Literal["median_seconds", "rows_per_second", "cpu_seconds_per_million"]
    parallelism: int | None = None
    at_least: float | None = None
    at_most: float | None = None


OperationLimit = Seconds | Share | Quotient


def judge_operations(limits: Sequence[OperationLimit], rows: Sequence[Operation]) -> list[Verdict]:
    """Returns a verdict for each limit, once per number of keys; none when nothing was run."""
    return [verdict for limit in limits for verdict in _verdicts(limit, rows)] if rows else []


def _verdicts(limit: OperationLimit, rows: Sequence[Operation]) -> Iterator[Verdict]:
    matching = [row for row in rows if row.operation == limit.operation]
    matching = [row for row in matching if limit.parallelism in (None, row.parallelism)]
    where = limit.operation + ("" if limit.parallelism is None else f" at parallelism {limit.parallelism}")
    if isinstance(limit, Quotient):
        to_keys = limit.keys if limit.to_keys is None else limit.to_keys
        pair = [_row(matching, limit.of, limit.keys), _row(matching, limit.to, to_keys)]
        mine, other = (None if row is None else getattr(row, limit.figure) for row in pair)
        measured = mine / other if mine is not None and other else None
        beyond = limit.to if limit.to_keys is None else f"{limit.to} with {to_keys:,} keys"
        name = f"{where}, {limit.keys:,} keys: {limit.figure} of {limit.of} {_bounds(limit, ' times')} that of {beyond}"
        needed = ((limit.of, limit.keys), (limit.to, to_keys))
        missing = tuple(_named(*one) for one, row in zip(needed, pair, strict=True) if row is None)
        yield _judged(name, measured, limit, [row for row in pair if row is not None], missing)
        return
    for keys in limit.keys:
        row = _row(matching, limit.of, keys)
        measured = None if row is None else getattr(row, limit.figure)
        name = f"{where}, {keys:,} keys: {limit.figure} of {limit.of} {_bounds(limit)}"
        missing = () if row is not None else (_named(limit.of, keys),)
        yield _judged(name, measured, limit, [] if row is None else [row], missing)


def _row(rows: Sequence[Operation], label: str, keys: int) -> Operation | None:
    return next((row for row in rows if row.label == label and row.keys == keys), None)


def _bounds(limit: OperationLimit, unit: str = "") -> str:
    least = None if isinstance(limit, Seconds) else limit.at_least
    bounds = [f"{word} {bound:g}{unit}" for word, bound in (("at least", least), ("at most", limit.at_most)) if bound]
    return " and ".join(bounds)


def _named(label: str, keys: int) -> str:
    return f"{label} with {keys:,} keys"


def _judged(
    name: str, measured: float | None, limit: OperationLimit, rows: Sequence[Operation], missing: tuple[str, ...]
) -> Verdict:
    if measured is None:
        return Verdict(name, None, False, "not measured in this run", missing)
    wrong = sorted({row.label for row in rows if not row.results_equal})
    if wrong:
        return Verdict(name, measured, False, "wrong results: " + ", ".join(wrong))
    least = None if isinstance(limit, Seconds) else limit.at_least
    low = least is None or measured >= least
    return Verdict(name, measured, low and (limit.at_most is None or measured <= limit.at_most))


__all__ = ["OperationLimit", "Quotient", "Seconds", "Share", "judge_operations"]
