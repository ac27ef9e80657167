"""Runs the fraud operator without Spark: what a task does with its records, from Arrow columns to sealed changes."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.fraud.inputs import INPUT, read
from benchmarks.fraud.results import OUTPUTS, STATES, as_table
from benchmarks.model import CONTENDERS, Case, Outcome
from benchmarks.state_backend_engine import settings
from lakestate.examples.fraud.job import ALERTS, LATE, MALFORMED, SESSIONS, Card
from state_engine.api.output_tag import columns_type
from state_engine.api.types import StructType
from state_engine.backends.choose import backend_maker
from state_engine.backends.time import MAX_WATERMARK, NO_WATERMARK, watermark_after
from state_engine.runtime.operator import Operator
from state_engine.runtime.operators import operator_of
from state_engine.runtime.outputs import MAIN, side_output_columns
from state_engine.runtime.spec import OperatorSpec, key_columns

MINUTE_MS = 60_000
SIDE_OUTPUTS: dict[str, StructType] = {tag.tag_id: side_output_columns(tag) for tag in (SESSIONS, LATE, MALFORMED)}


def spec() -> OperatorSpec:
    """Returns the operator `card` as the stream's tasks get it."""
    return OperatorSpec(
        uid="card",
        kind="keyed_process",
        function=Card(),
        input=INPUT,
        key=key_columns(INPUT, ("card",)),
        order_by=(),
        output=columns_type(ALERTS, "the alerts"),
        side_outputs=SIDE_OUTPUTS,
        emits_event_time=False,
        out_of_orderness=MINUTE_MS,
    )


def run(case: Case) -> Outcome:
    """Runs the operator epoch by epoch, and reads its states at the end."""
    work = Path(case.work)
    maker = backend_maker(settings(CONTENDERS[case.engine].backend, work), case.work, "benchmark", 1)
    operator = operator_of(spec(), 0, 1, maker)
    batches = list(read(Path(case.inputs)))
    outputs: list[dict[str, pa.RecordBatch]] = []
    ends: list[float] = []
    watermark = NO_WATERMARK
    begin(operator)
    for epoch, batch in enumerate(batches):
        outputs += run_epoch(operator, epoch, watermark, batch)
        watermark = max(watermark, watermark_after(batch.columns[-1][-1].as_py(), MINUTE_MS))
        ends.append(time.time())
    operator.begin(len(batches), watermark, 0)
    cards: list[Any] = pa.concat_arrays([batch["card"] for batch in batches]).unique().drop_null().to_pylist()
    states = states_of(operator.function, cards, lambda card: setattr(operator.context, "entry", card))
    outputs += run_epoch(operator, len(batches), MAX_WATERMARK, None)
    assert operator.backend is not None
    operator.backend.close()
    return Outcome(ends, states | _tables(outputs))


def begin(operator: Operator) -> None:
    """Opens the operator on empty states."""
    backend = operator.backend
    assert backend is not None
    backend.resume()
    backend.start("0")
    backend.attach((), lambda schema: ())
    operator.open()


def run_epoch(
    operator: Operator, epoch: int, watermark: int, batch: pa.RecordBatch | None
) -> list[dict[str, pa.RecordBatch]]:
    """Processes the records of an epoch, gathers its changes and seals them; returns the outputs."""
    operator.begin(epoch, watermark, 0)
    outputs = [operator.advance()]
    if batch is not None:
        outputs += [operator.process(batch), operator.flush(), operator.advance_watermark()]
    operator.snapshot(epoch + 1, epoch + 1)
    operator.changes()
    operator.settle()
    assert operator.backend is not None
    operator.backend.commit(str(epoch + 1))
    return outputs


def states_of(function: Card, cards: Iterable[str], enter: Callable[[str], None]) -> dict[str, pa.Table]:
    """Returns the contents of the states, read as the function reads them.

    Args:
        function: The function.
        cards: All keys.
        enter: Makes a key the current one.
    """
    rows: dict[str, list[Any]] = {name: [] for name in STATES}
    for card in cards:
        enter(card)
        if recent := list(function.recent.get()):
            rows["recent"].append((card, recent))
        rows["spent"] += [(card, *entry) for entry in function.spent.items()]
        for name in ("place", "total"):
            if (value := getattr(function, name).value()) is not None:
                rows[name].append((card, value))
    return {name: as_table(of_state) for name, of_state in rows.items()}


def _tables(outputs: Iterable[dict[str, pa.RecordBatch]]) -> dict[str, pa.Table]:
    rows: dict[str, list[Any]] = {name: [] for name in OUTPUTS}
    for of_call in outputs:
        for name, batch in of_call.items():
            rows["alerts" if name == MAIN else name] += batch.to_pylist()
    return {name: as_table(of_output) for name, of_output in rows.items()}


__all__ = ["MINUTE_MS", "SIDE_OUTPUTS", "run", "spec", "states_of"]
