"""Many random programs in one job on Spark: each form of each program is an operator with a source of its own."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from forms import declared, declared_runs, generating, running, window_runs, windows
from forms.plain import PlainJob
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from state_engine.api import OutputTag, WatermarkStrategy
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.types import StructType
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.rows import write_columns
from state_engine.serialization.types import schema_of
from state_engine.spark import MemorySink, StreamJob

FILES = 3
Rows = list[tuple[Any, ...]]


def drawn(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """Returns examples of a strategy, determined by a seed alone, without the first ones, which are small."""
    examples: list[Any] = []

    @seed(number)
    @settings(max_examples=4 * count, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(example: Any) -> None:
        examples.append(example)

    with generating.only_new():
        collect()
    return examples[-count:]


@dataclass
class Operator:
    """A form of a program in a job.

    Attributes:
        uid: Its uid.
        shown: The program, its input and its form, for messages.
        input: Columns of its records.
        files: Its records, file by file; event times are the last column if it has a strategy.
        add: Adds it to a stream, which has been keyed.
        key: Its key columns.
        check: Compares the rows of each output, epoch by epoch.
        strategy: Of its source.
        outputs: Columns of the main output and of the side outputs that are read.
    """

    uid: str
    shown: str
    input: StructType
    files: list[Rows]
    add: Callable[[Any], Any]
    key: list[str]
    check: Callable[[dict[str, list[Rows]]], None]
    strategy: WatermarkStrategy | None
    outputs: dict[str, StructType]


def operators(number: int, each: int) -> list[Operator]:
    """Returns the forms of random programs, `each` programs of each kind.

    Args:
        number: The seed.
        each: The number of programs of each kind.
    """
    made: list[Operator] = []
    for case in drawn(generating.cases(generating.programs(for_spark=True)), each, number):
        for form in ("row", "batch"):
            made.append(_of_program(f"p{len(made)}", case, form))
    for case in drawn(window_runs.cases(window_runs.programs(for_spark=True)), each, number):
        forms = windows.forms_of(case.program)
        for form in sorted({forms[number % len(forms)], forms[-1]}):
            made.append(_of_windows(f"w{len(made)}", case, form))
    for case in drawn(declared_runs.cases(declared_runs.programs(for_spark=True)), each, number):
        forms = declared.forms_of(case.program)
        for form in sorted({forms[number % 2], forms[-1]}):
            made.append(_of_declared(f"d{len(made)}", case, form))
    return made


def _of_program(uid: str, case: running.Case, form: str) -> Operator:
    program = case.program
    records = [record._replace(at=None) for stretch in case.stretches for record in stretch.records]
    numbered = running.rows_of(program, records, 0)

    def check(seen: dict[str, list[Rows]]) -> None:
        model = PlainJob(program)
        wanted = [model.epoch(part) for part in in_files(records)]
        for output, rows in (("main", [row for one in wanted for row in one.main]),
                             ("aside", [row for one in wanted for row in one.aside])):  # fmt: skip
            actual = sorted((row for epoch in seen[output] for row in epoch), key=lambda row: row[len(program.key)])
            assert running.by_key(program, actual) == running.by_key(program, rows), output

    return Operator(
        uid, f"{case!r}, {form!r}", program.input, in_files(numbered),
        lambda keyed: keyed.process(running.function_of(program, form), program.output, uid=uid),
        program.key_columns, check, None, {"main": program.output, "aside": program.output},
    )  # fmt: skip


def _of_windows(uid: str, case: window_runs.Case, form: str) -> Operator:
    program, definition = case.program, case.program.releases[0]
    given = [event for stretch in case.stretches for event in stretch.records]
    if program.bound is None:  # without event time records come in the order of their numbers
        given = [event._replace(at=0) for event in given]
    events = list(enumerate(given))

    def check(seen: dict[str, list[Rows]]) -> None:
        model = windows.PlainWindows(program, definition)
        for part in in_files(events):
            model.epoch(part)
            if program.bound is not None and part:
                model.advance(max(event.at for _, event in part) - program.bound - windows.TIE)
        model.advance(windows.END)
        window_runs.compare(program, form, model, *(list(chain(*seen[output])) for output in ("main", "late")))

    columns = parse_columns_ddl(f"{columns_of(program.input)}, at bigint")
    output = program.output if form != "declared" else window_runs.declared_output(program)
    return Operator(
        uid, f"{case!r}, {form!r}", columns, in_files([(*one.key, n, one.value, one.at) for n, one in events]),
        lambda keyed: windows.operator_of(
            program, definition, form, keyed.window(windows.assigner_of(program, definition)), uid
        ),
        program.key_columns, check, windows.strategy_of(program), {"main": output, "late": program.input},
    )  # fmt: skip


def _of_declared(uid: str, case: declared_runs.Case, form: str) -> Operator:
    program = case.program
    rows = [(*one.key, n, one.o, one.v) for n, one in enumerate(case.records)]

    def check(seen: dict[str, list[Rows]]) -> None:
        table: dict[Any, Any] = {}
        for epoch in seen["main"]:
            declared_runs.apply(program, form, epoch, table)
        declared_runs.compare(program, rows, table)

    output = declared.output_of(program, form)
    return Operator(
        uid, f"{case!r}, {form!r}", program.input, in_files(rows),
        lambda keyed: declared.added(keyed, program, form, uid), program.key_columns, check, None, {"main": output},
    )  # fmt: skip


def in_files(records: Sequence[Any]) -> list[Any]:
    """Cuts records into one part per epoch."""
    size = -(-len(records) // FILES)
    return [list(records[n * size : (n + 1) * size]) for n in range(FILES)]


def columns_of(struct: StructType) -> str:
    """Returns columns as Spark's DDL."""
    return ", ".join(f"{name} {kind.ddl()}" for name, kind in zip(struct.names, struct.types, strict=True))


def job_of(spark: Any, made: Sequence[Operator], folder: Path, backend: str) -> StreamJob:
    """Returns a job with all operators."""
    job = StreamJob(f"forms-{backend}", root=str(folder / "root"), parallelism=2, state_backend=backend)
    for operator in made:
        source = folder / operator.uid
        source.mkdir(parents=True)
        for n, rows in enumerate(operator.files):
            arrays = write_columns(rows, operator.input, [writer(kind) for kind in operator.input.types])
            path = source / f"{n}.parquet"
            pq.write_table(pa.Table.from_arrays(arrays, schema=schema_of(operator.input)), path)
            os.utime(path, (1_600_000_000 + n, 1_600_000_000 + n))
        reading = spark.readStream.schema(columns_of(operator.input)).option("maxFilesPerTrigger", 1)
        stream = job.from_stream(reading.parquet(str(source)), name=operator.uid, bounded=True)
        if operator.strategy is not None:
            stream = stream.assign_timestamps_and_watermarks(operator.strategy.with_timestamp_column("at"))
        if "at" in operator.input.names[-1:]:
            stream = stream.select(*operator.input.names[:-1])
        results = operator.add(stream.key_by(*operator.key, order_by=["n"]))
        for output, columns in operator.outputs.items():
            side = results if output == "main" else results.get_side_output(OutputTag(output, columns))
            side.sink_to(MemorySink(f"{operator.uid} {output}"), uid=f"{operator.uid}-{output}")
    return job


def seen_of(operator: Operator) -> dict[str, list[Rows]]:
    """Returns the rows of each output of an operator, epoch by epoch."""
    return {
        output: [
            list(zip(*(reader(kind)(column) for kind, column in zip(columns.types, table.columns, strict=True)),
                     strict=True))
            for table in MemorySink(f"{operator.uid} {output}").epochs.values()
        ]
        for output, columns in operator.outputs.items()
    }  # fmt: skip


__all__ = ["Operator", "drawn", "job_of", "operators", "seen_of"]
