"""Tests joins in a harness, declared as in a job."""

from collections.abc import Sequence
from typing import Any

from state_engine.api.output_tag import OutputTag, columns_type
from state_engine.runtime.declared.join_streams import IntervalJoinedStreams
from state_engine.runtime.declared.joins import Join
from state_engine.runtime.declared.temporal_join import TemporalJoin, TemporalJoinType
from state_engine.runtime.two_inputs import KeyedInput
from state_engine.testing.two_input_harness import KeyedTwoInputStreamOperatorTestHarness

Names = str | Sequence[str]


class _Inputs:
    """Two keyed inputs, and the options for a harness of their join."""

    def __init__(self, key1: Names, key2: Names, input_type1: Any, input_type2: Any, options: dict[str, Any]) -> None:
        self.first, self.second = (
            KeyedInput(columns_type(given, f"input {n}"), (key,) if isinstance(key, str) else tuple(key))
            for n, key, given in ((1, key1, input_type1), (2, key2, input_type2))
        )
        self._options = options

    def harness(self, join: Join, uid: str | None) -> KeyedTwoInputStreamOperatorTestHarness:
        options = self._options if uid is None else {**self._options, "uid": uid}
        one, other = self.first, self.second
        return KeyedTwoInputStreamOperatorTestHarness(
            join, one.key, other.key, one.columns, other.columns, join.output, **options
        )


def interval_join_harness(
    key1: Names, key2: Names, input_type1: Any, input_type2: Any, **options: Any
) -> IntervalJoinedStreams[KeyedTwoInputStreamOperatorTestHarness]:
    """Returns what `interval_join` returns in a job, except that its `join` returns a harness.

    Args:
        key1: Names of the key columns of the first stream.
        key2: Names of the key columns of the second stream.
        input_type1: Columns of the records of the first stream.
        input_type2: Columns of the records of the second stream.
        options: Other arguments of `KeyedTwoInputStreamOperatorTestHarness`: parallelism, side_outputs, …
    """
    inputs = _Inputs(key1, key2, input_type1, input_type2, options)
    return IntervalJoinedStreams(inputs.first, inputs.second, inputs.harness)


def temporal_join_harness(
    key1: Names,
    key2: Names,
    input_type1: Any,
    input_type2: Any,
    how: TemporalJoinType = "inner",
    late_data: OutputTag | None = None,
    **options: Any,
) -> KeyedTwoInputStreamOperatorTestHarness:
    """Returns a harness for `temporal_join`.

    Args:
        key1: Names of the key columns of the first stream.
        key2: Names of the key columns of the versions.
        input_type1: Columns of the records of the first stream.
        input_type2: Columns of the records of the versions.
        how: As in `temporal_join`.
        late_data: As in `temporal_join`.
        options: Other arguments of `KeyedTwoInputStreamOperatorTestHarness`.
    """
    inputs = _Inputs(key1, key2, input_type1, input_type2, options)
    return inputs.harness(TemporalJoin(inputs.first, inputs.second, how, late_data), None)


__all__ = ["interval_join_harness", "temporal_join_harness"]
