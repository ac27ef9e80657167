"""Counting lost, doubled and differing rows."""

import pyarrow as pa
import pytest

from lakestate.examples.compare import Difference, collect_lists, compare

EXPECTED = pa.table({"k": ["a", "b", None], "v": pa.array([1.5, None, 3.0])})


def actual(*rows: tuple[str | None, float | None]) -> pa.Table:
    return pa.table(
        {"k": pa.array([r[0] for r in rows], pa.string()), "v": pa.array([r[1] for r in rows], pa.float64())}
    )


@pytest.mark.parametrize(
    ("rows", "difference"),
    [
        ([("a", 1.5), ("b", None), (None, 3.0)], Difference(0, 0, 0)),
        ([(None, 3.0), ("b", None), ("a", 1.5)], Difference(0, 0, 0)),
        ([("b", None), (None, 3.0)], Difference(1, 0, 0)),
        ([("a", 1.5), ("a", 1.5), ("b", None), (None, 3.0)], Difference(0, 1, 0)),
        ([("a", 1.5), ("a", 9.0), ("b", None), (None, 3.0)], Difference(0, 1, 0)),
        ([("a", 9.0), ("b", None), (None, 3.0)], Difference(0, 0, 1)),
        ([("a", 1.5), ("b", 0.0), (None, None)], Difference(0, 0, 2)),
        ([("a", 1.5), ("b", None), (None, 3.0), ("c", 1.0)], Difference(0, 1, 0)),
        ([("c", 1.0)], Difference(3, 1, 0)),
        ([], Difference(3, 0, 0)),
    ],
)
def test_rows_are_counted(rows: list[tuple[str | None, float | None]], difference: Difference) -> None:
    assert compare(actual(*rows), EXPECTED, ["k"]) == difference


def test_columns_may_come_in_another_order_and_type_and_with_others() -> None:
    other = pa.table({"x": [1, 2], "v": pa.array([1, 2], pa.int32()), "k": ["a", "b"]})
    assert compare(other, pa.table({"k": ["a", "b"], "v": pa.array([1, 2], pa.int64())}), ["k"]) == Difference(0, 0, 0)


def test_a_missing_column_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"lacks the column\(s\) v; it has k"):
        compare(pa.table({"k": ["a"]}), EXPECTED, ["k"])


def test_structs_and_lists_compare_by_content_and_order() -> None:
    expected = pa.table({"k": [1, 2], "v": [[1.0, 2.0], [3.0]], "s": [{"a": 1}, {"a": 2}]})
    turned = pa.table({"k": [1, 2], "v": [[2.0, 1.0], [3.0]], "s": [{"a": 1}, {"a": 9}]})
    assert compare(expected, expected, ["k"]) == Difference(0, 0, 0)
    assert compare(turned, expected, ["k"]) == Difference(0, 0, 2)


def test_lists_are_collected_in_log_order() -> None:
    rows = pa.table(
        {"k": ["a", "a", "b", "a"], "value": [3.0, 1.0, 9.0, 2.0], "position": [2, 1, 1, 1], "seq": [0, 0, 5, 7]}
    )
    lists = {row["k"]: row["value"] for row in collect_lists(rows, ["k"]).to_pylist()}
    assert lists == {"a": [1.0, 2.0, 3.0], "b": [9.0]}
