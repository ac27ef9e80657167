"""Runs random programs that can be declared, in a way, beside their plain model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

from forms.declared import VERBS, Item, Kept, forms_of, function_of, output_of, table_of
from forms.running import MAX_PARALLELISM
from forms.values import KEYS, canonical, types, values
from forms.ways import Restarts, Turn, Way, epochs_of, ways
from hypothesis import strategies as st

from state_engine.api.type_hints import parse_ddl
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

ORDERED = ["bigint", "tinyint", "double", "float", "string", "date", "timestamp", "decimal(38,18)", "boolean"]


@dataclass(frozen=True)
class Case:
    """A program and its records."""

    program: Kept
    records: tuple[Item, ...]


@st.composite
def programs(draw: Any, *, for_spark: bool = False) -> Kept:
    """Programs of each verb."""
    key = tuple(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)))
    verb, order = draw(st.sampled_from(VERBS)), draw(st.sampled_from(ORDERED))
    return Kept(key, order, draw(types(listed=for_spark)), verb, draw(st.integers(1, 3)), draw(st.booleans()))


@st.composite
def cases(draw: Any, of: st.SearchStrategy[Kept] | None = None) -> Case:
    """Programs with inputs."""
    program = draw(programs() if of is None else of)
    keys = draw(st.lists(st.tuples(*map(values, program.key)), min_size=1, max_size=3))
    item = st.builds(Item, st.sampled_from(keys), values(program.order), values(program.type))
    return Case(program, tuple(draw(st.lists(item, min_size=1, max_size=12))))


def ways_of(program: Kept) -> st.SearchStrategy[Way]:
    """Ways to run a program: the row form and the form by columns may replace each other."""

    def alike(way: Way) -> Way:
        first = way.turns[0].form
        forms = ("row", "batch") if first in ("row", "batch") else (first,)
        turns = [turn if turn.form in forms else Turn(first, turn.backend, turn.parallelism) for turn in way.turns]
        return replace(way, turns=tuple(turns))

    return ways(forms_of(program)).map(alike)


def check(case: Case, way: Way) -> None:
    """Runs a case in a way; after each epoch the table that its rows make is that of the plain model."""
    program = case.program
    rows = [(*one.key, n, one.o, one.v) for n, one in enumerate(case.records)]
    table: dict[Any, Any] = {}

    def harness(turn: Turn, backend: Any) -> Any:
        return KeyedOneInputStreamOperatorTestHarness(
            function_of(program, turn.form), program.key_columns, program.input, output_of(program, turn.form),
            parallelism=turn.parallelism, max_parallelism=MAX_PARALLELISM, state_backend=backend,
        )  # fmt: skip

    with TemporaryDirectory() as disk:
        run, seen = Restarts(harness, way, disk), 0
        for epoch in epochs_of(rows, way.cuts):
            run.harness.process_elements(epoch)
            seen += len(epoch)
            apply(program, way.turns[0].form, run.harness.extract_output_values(), table)
            run.harness.clear_output()
            compare(program, rows[:seen], table)
            run.after_epoch()
        run.harness.close()


def compare(program: Kept, rows: Sequence[Any], table: dict[Any, Any]) -> None:
    """Compares the table with that of the plain model after these records."""
    kinds, row_type = [parse_ddl(kind) for kind in program.key], parse_ddl(program.row)
    records: dict[Any, list[Any]] = {}
    for row in rows:
        key = tuple(canonical(kind, value) for kind, value in zip(kinds, row, strict=False))
        records.setdefault(key, []).append(row[len(kinds) :])
    right = {key: [canonical(row_type, row) for row in table_of(program, own)] for key, own in records.items()}
    given = {key: [row for _, row in sorted(rows.items())] for key, rows in table.items()}
    assert given == right, f"{given} in place of {right}"


def apply(program: Kept, form: str, rows: Any, table: dict[Any, Any]) -> None:
    """Applies the rows of an epoch to a table: by key, then by rank."""
    kinds, row_type = [parse_ddl(kind) for kind in program.key], parse_ddl(program.row)
    replaced: set[Any] = set()
    for row in map(tuple, rows):
        key = tuple(canonical(kind, value) for kind, value in zip(kinds, row, strict=False))
        rest = row[len(kinds) :]
        if form in ("row", "batch"):
            table[key] = {n: canonical(row_type, one) for n, one in enumerate(rest[0], 1)}
            continue
        at, op = 1, "+I"
        if program.verb == "top_n":
            *rest, at, op = rest
        elif form == "changelog":
            *rest, op = rest
        found = canonical(row_type, rest)
        own = table.setdefault(key, {})
        if op in ("-U", "-D"):
            assert own.pop(at) == found, f"{op} of a row that does not exist"
        elif form == "changelog" or program.verb == "top_n":
            assert at not in own, f"{op} of a row that exists"
            own[at] = found
        else:
            assert key not in replaced, "one row of a key in an epoch"
            assert program.verb != "deduplicate" or at not in own, "a duplicate"
            replaced.add(key)
            own[at] = found


__all__ = ["Case", "apply", "cases", "check", "compare", "programs", "ways_of"]
