"""Rows that reach the next operator as the objects that a function returned."""

from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import OutputTag, ProcessFunction
from state_engine.api.output_tag import columns_type
from state_engine.runtime.emitted import Rows
from state_engine.runtime.failures import OperatorFailure
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec

COLUMNS = columns_type("n bigint", "rows")
SIDE = OutputTag("side", "n bigint")


class Pass(ProcessFunction):
    """Emits its input; negative numbers go to a side output."""

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value[0] == 13:
            raise ValueError("unlucky")
        return [(SIDE, value)] if value[0] < 0 else [value]


def opened(*, timed: bool = False, **fields: Any) -> Any:
    side = {"side": columns_type("n bigint", "side")}
    spec = OperatorSpec(
        "pass", "process", Pass(), COLUMNS, (), (), COLUMNS, side_outputs=side, emits_event_time=timed, **fields
    )
    operator = operator_of(spec, 0, 1)
    operator.open()
    operator.begin(0, None, 0)
    return operator


def test_objects_pass_several_operators_untouched() -> None:
    objects = [[1], [2], [3]]
    given = Rows(list(objects), None)
    for _ in range(3):
        operator = opened(keeps_rows=True, writes_main=False)
        assert operator.process_rows(given) == {}
        taken = operator.take_rows()
        assert taken is not None
        given = taken
    assert all(one is other for one, other in zip(given.rows, objects, strict=True))


def test_rows_are_taken_once() -> None:
    operator = opened(keeps_rows=True, writes_main=False)
    operator.process_rows(Rows([(1,)], None))
    assert operator.take_rows() == Rows([(1,)], None)
    assert operator.take_rows() is None
    operator.process_rows(Rows([(-1,)], None))
    assert operator.take_rows() is None


@pytest.mark.parametrize("keeps_rows", [True, False])
def test_side_outputs_and_times_go_their_own_way(keeps_rows: bool) -> None:
    operator = opened(timed=True, keeps_rows=keeps_rows, writes_main=not keeps_rows)
    outputs = operator.process_rows(Rows([(1,), (-2,), (3,)], [10, 20, None]))
    assert outputs["side"].to_pylist() == [{"n": -2}]
    taken = operator.take_rows()
    if keeps_rows:
        assert taken == Rows([(1,), (3,)], [10, None])
        assert "main" not in outputs
    else:
        assert taken is None
        assert outputs["main"].to_pylist() == [{"n": 1, "__ls_time": 10}, {"n": 3, "__ls_time": None}]


def test_rows_for_a_sink_become_columns_as_well_and_are_checked() -> None:
    operator = opened(keeps_rows=True)
    assert operator.process_rows(Rows([(1,)], None))["main"].to_pylist() == [{"n": 1}]
    assert operator.take_rows() == Rows([(1,)], None)
    with pytest.raises(OperatorFailure) as caught:
        operator.process_rows(Rows([(1.5,)], None))
    assert caught.value.failure.kind == "output_type"


def test_an_error_names_the_object() -> None:
    with pytest.raises(OperatorFailure) as caught:
        opened().process_rows(Rows([(1,), (13,)], None))
    assert caught.value.failure.record == "(13,)"


def test_columns_are_read_as_ever() -> None:
    operator = opened(keeps_rows=True, writes_main=False)
    operator.process(pa.record_batch({"n": pa.array([1, 2], pa.int64())}))
    taken = operator.take_rows()
    assert taken is not None
    assert [row.n for row in taken.rows] == [1, 2]
