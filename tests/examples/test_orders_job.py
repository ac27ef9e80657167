"""Compares the function of the orders job with the batch recomputation, for any division of its input into epochs."""

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakestate.examples import compare
from lakestate.examples.files import write_file
from lakestate.examples.orders import data, job
from lakestate.examples.orders.truth import compute_truth
from state_engine.api import OutputTag, WatermarkStrategy
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

PARTS = 100  # 25 days: some payments come after the state of the first one has expired
LAST = (1 << 63) - 1


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    """The records of one customer in fourteen, so that a test takes seconds."""
    records = pa.concat_tables([data.read_part(number) for number in range(1, PARTS + 1)])
    chosen = pa.array([f"c{number:04}" for number in range(0, data.CUSTOMERS, 14)])
    return records.filter(pc.is_in(records["customer"], chosen))


def harness_of(parallelism: int, backend: str = "heap") -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(
        job.Customer(),
        "customer",
        data.SCHEMA,
        job.REMINDERS,
        parallelism=parallelism,
        max_parallelism=48,
        side_outputs=[job.CANCELLED, job.RETURNED],
        state_backend=backend,
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
    )


def feed(harness: KeyedOneInputStreamOperatorTestHarness, records: pa.Table) -> None:
    times = [round(time.timestamp() * 1_000) for time in records["event_time"].to_pylist()]
    harness.process_elements(records.to_pylist(), times)


def outputs(harness: KeyedOneInputStreamOperatorTestHarness) -> dict[str, list[tuple[Any, ...]]]:
    made = {"reminders": list(harness.extract_output_values())}
    return made | {tag.tag_id: list(harness.get_side_output(tag)) for tag in (job.CANCELLED, job.RETURNED)}


def columns_of(name: str) -> list[str]:
    tags: dict[str, OutputTag] = {tag.tag_id: tag for tag in (job.CANCELLED, job.RETURNED)}
    if name in tags:
        assert tags[name].type_info is not None
        return list(tags[name].type_info.names)
    return list(parse_columns_ddl(job.REMINDERS).names)


def check(made: dict[str, list[tuple[Any, ...]]], truth: compare.Truth) -> None:
    for name, expected in truth.outputs.items():
        assert expected.num_rows
        rows = [dict(zip(columns_of(name), row, strict=True)) for row in made[name]]
        actual = pa.Table.from_pylist(rows, expected.schema)
        assert compare.compare(actual, expected, truth.keys[name]) == (0, 0, 0), name


def state(harness: KeyedOneInputStreamOperatorTestHarness, name: str) -> dict[Any, Any]:
    """Returns a state as {customer: value}."""
    return dict(harness.snapshot().states()[name])


@pytest.mark.parametrize(
    ("backend", "seed"), [("heap", 1), ("heap", 2), pytest.param("rocksdb", 3, marks=pytest.mark.slow)]
)
def test_function_and_truth_agree_wherever_epochs_are_cut(
    stream: pa.Table, tmp_path: Path, backend: str, seed: int
) -> None:
    cuts = random.Random(seed)
    made: dict[str, list[tuple[Any, ...]]] = {"reminders": [], "cancelled": [], "returned": []}
    harness = harness_of(2, backend)
    first = 0
    while first < stream.num_rows:
        records = cuts.choice([1, 30, 300, 1_000])
        feed(harness, stream.slice(first, records))
        first += records
        if cuts.random() < 0.2:
            harness = restored(harness, cuts.choice([1, 2, 3, 5]), backend, made)
    harness.process_watermark(LAST)
    assert state(harness, "unpaid") == {}
    restored(harness, 1, backend, made).close()

    write_file(stream, tmp_path, "orders", 1)
    check(made, compute_truth(tmp_path, drained=True))


def restored(
    before: KeyedOneInputStreamOperatorTestHarness,
    parallelism: int,
    backend: str,
    made: dict[str, list[tuple[Any, ...]]],
) -> KeyedOneInputStreamOperatorTestHarness:
    """Continues at another parallelism, and keeps the output so far."""
    for name, rows in outputs(before).items():
        made[name] += rows
    after = harness_of(parallelism, backend)
    after.initialize_state(before.snapshot())
    before.close()
    return after


def test_states_in_the_middle_of_the_stream_are_those_of_the_truth(stream: pa.Table, tmp_path: Path) -> None:
    write_file(stream, tmp_path, "orders", 1)
    truth = compute_truth(tmp_path)
    with harness_of(1) as harness:
        feed(harness, stream)
        check(outputs(harness), truth)
        for (uid, name), expected in truth.states.items():
            assert uid == "customer"
            assert expected.num_rows
            content = state(harness, name)
            if "user_key" in expected.column_names:
                own_content = {
                    (key, user_key): tuple(v) for key, entries in content.items() for user_key, v in entries.items()
                }
                wanted = {(r["customer"], r["user_key"]): tuple(r["value"].values()) for r in expected.to_pylist()}
            else:
                own_content = content
                wanted = {row["customer"]: row["value"] for row in expected.to_pylist()}
            assert own_content == wanted, name


def test_payments_are_forgotten_after_two_weeks(stream: pa.Table) -> None:
    with harness_of(1, "rocksdb") as harness:
        feed(harness, stream)
        for _ in range(20):  # the clean-up looks at a thousand rows in each epoch
            feed(harness, stream.slice(0, 0))
        kept = [at for entries in state(harness, "paid").values() for at in entries.values()]
    newest = stream["event_time"].to_pylist()[-1]
    assert kept
    assert min(kept) > newest - datetime.timedelta(days=14, milliseconds=1)
