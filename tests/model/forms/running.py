"""Runs a program in a way, beside its plain model, and compares every epoch."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forms.functions import ByBatch, ByRow, WithTimer, WithTimers
from forms.plain import START, Output, PlainJob, Record, Stretch
from forms.program import Program, aside
from forms.values import canonical
from forms.ways import Restarts, Turn, Way, epochs_of

from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

MAX_PARALLELISM = 13


@dataclass(frozen=True)
class Case:
    """A program and its input.

    Attributes:
        program: The program.
        stretches: Its input.
        following: The next release; its states have other types.
        released: The stretch before which it begins.
    """

    program: Program
    stretches: tuple[Stretch, ...]
    following: Program | None = None
    released: int = 0


def forms_of(program: Program) -> list[str]:
    """Returns the forms that a program has."""
    if not program.has_timers:
        return ["row", "batch"]
    by_event = any(state.ttl.startswith("event") for state in program.states)
    return ["row", "batch, timer by timer"] + ([] if by_event else ["batch, timers together"])


def function_of(program: Program, form: str) -> Any:
    """Returns a program in a form."""
    kinds = {"row": ByRow, "batch": ByBatch, "batch, timer by timer": WithTimer, "batch, timers together": WithTimers}
    return kinds[form](program)


def harness_of(program: Program, turn: Turn, backend: Any) -> KeyedOneInputStreamOperatorTestHarness:
    """Returns a harness of a program."""
    return KeyedOneInputStreamOperatorTestHarness(
        function_of(program, turn.form),
        program.key_columns,
        program.input,
        program.output,
        parallelism=turn.parallelism,
        max_parallelism=MAX_PARALLELISM,
        side_outputs=[aside(program)],
        state_backend=backend,
    )


def rows_of(program: Program, records: Sequence[Record], first: int) -> list[tuple[Any, ...]]:
    """Returns records as rows of the input; `first` is the number of the first one."""
    return [
        (*record.key, n, record.operation, record.timer, *(part for pair in record.values for part in pair))
        for n, record in enumerate(records, first)
    ]


def check(case: Case, way: Way) -> None:
    """Runs a case in a way and compares the rows of each epoch with those of the plain model."""
    program, first = case.program, 0
    model = PlainJob(program)
    with tempfile.TemporaryDirectory() as disk:
        run = Restarts(lambda turn, backend: harness_of(model.program, turn, backend), way, disk)
        for number, stretch in enumerate(case.stretches):
            if case.following is not None and number == case.released:
                program = case.following
                model.begin(program)
                run.restore()
            if stretch.clock:
                model.advance(stretch.clock, 0)
                expected = model.epoch(())
                run.harness.set_processing_time(model.processing_time)
                compare(program, run.harness, expected)
                run.after_epoch()
            if stretch.watermark:
                model.advance(0, stretch.watermark)
                expected = model.epoch(())
                run.harness.process_watermark(model.watermark)
                compare(program, run.harness, expected)
                run.after_epoch()
            for records in epochs_of(stretch.records, way.cuts):
                expected = model.epoch(records)
                run.harness.process_elements(rows_of(program, records, first), [record.at for record in records])
                first += len(records)
                compare(program, run.harness, expected)
                run.after_epoch()
        run.harness.close()


def compare(program: Program, harness: Any, expected: Output) -> None:
    """Compares the rows of an epoch, and clears them."""
    main, beside = harness.extract_output_values(), harness.get_side_output(aside(program))
    for rows, wanted in ((main, expected.main), (beside, expected.aside)):
        given, right = by_key(program, rows), by_key(program, wanted)
        assert given == right, f"{given} in place of {right}"
    harness.clear_output()


def by_key(program: Program, rows: Sequence[Any]) -> dict[Any, list[Any]]:
    """Returns rows in their canonical spelling, those of each key in order; the entries of a map have no order."""
    kinds, keys = program.output.types, len(program.key)
    maps = {keys + 2 + 3 * n for n, state in enumerate(program.states) if state.shape == "map"}
    found: dict[Any, list[Any]] = {}
    for row in rows:
        same = [canonical(kind, value) for kind, value in zip(kinds, row, strict=True)]
        for at in maps:
            same[at] = same[at] and tuple(sorted(same[at], key=repr))
        found.setdefault(tuple(same[:keys]), []).append(tuple(same[keys:]))
    return found


__all__ = ["START", "Case", "check", "forms_of", "function_of", "harness_of"]
