"""Runs the fraud function over bare dicts and a heap of timers: what the function itself costs in Python.

The rows exist before the clock starts. `bare/written` also makes Arrow columns of the emitted rows and of the values
that an epoch changed: what output and change log alone cost.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fraud.bare_states import BareContext, BareRuntime
from benchmarks.fraud.inputs import INPUT, read
from benchmarks.fraud.operator import MINUTE_MS, SIDE_OUTPUTS, states_of
from benchmarks.fraud.results import OUTPUTS, as_table
from benchmarks.model import Case, Outcome
from lakestate.examples.fraud.job import ALERTS, Card
from state_engine.api import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from state_engine.api.output_tag import columns_type
from state_engine.api.types import ListType, MapType, StructType, TypeInformation
from state_engine.backends.time import MARGIN, MAX_WATERMARK
from state_engine.runtime.outputs import MAIN, OutputWriter, split_by_tag
from state_engine.serialization.convert import field_readers, writer
from state_engine.serialization.rows import row_maker

WRITTEN = "fraud/bare/written"
_KEY = INPUT.names.index("card")


class Epoch(NamedTuple):
    """The records of an epoch: keys, event times in ms, and rows."""

    keys: list[Any]
    times: list[Any]
    rows: list[Any]


def run(case: Case) -> Outcome:
    """Runs the function over the records of all epochs, and reads its states at the end."""
    context = BareContext()
    runtime = BareRuntime(context, notes_changes=case.engine == WRITTEN)
    function: Any = Card()
    function.open(runtime)
    write = writing(runtime) if case.engine == WRITTEN else None
    epochs = epochs_of(Path(case.inputs))
    emitted: list[Any] = []
    ends: list[float] = []
    for epoch in epochs:
        made = process(function, context, epoch)
        if write is not None:
            write(made)
        emitted += made
        ends.append(time.time())
    cards = {key for epoch in epochs for key in epoch.keys if key is not None}
    states = states_of(function, cards, lambda card: setattr(context, "key", card))
    context.watermark = MAX_WATERMARK
    emitted += fire(function, context)
    main, tagged = split_by_tag(emitted)
    rows = {"alerts": main, **tagged}
    return Outcome(ends, states | {name: as_table(rows.get(name, [])) for name in OUTPUTS})


def epochs_of(inputs: Path) -> list[Epoch]:
    """Reads all records, as rows."""
    readers, make = field_readers(INPUT), row_maker(INPUT)
    epochs = []
    for batch in read(inputs):
        columns = [read_field(column) for read_field, column in zip(readers, batch.columns, strict=False)]
        epochs.append(Epoch(columns[_KEY], batch.columns[-1].to_pylist(), list(map(make, *columns))))
    return epochs


def process(function: Any, context: BareContext, epoch: Epoch) -> list[Any]:
    """Calls the function for each record and each due timer; returns what it emitted."""
    emitted: list[Any] = []
    call, heap, lag = function.process_element, context.heap, MINUTE_MS + MARGIN
    for key, at, row in zip(*epoch, strict=True):
        if at - lag > context.watermark:
            context.watermark = at - lag
            if heap and heap[0][0] <= context.watermark:
                emitted += fire(function, context)
        context.key, context.time = key, at
        emitted.extend(call(row, context))
    return emitted


def fire(function: Any, context: BareContext) -> list[Any]:
    """Calls the function for each timer up to the watermark; returns what it emitted."""
    emitted: list[Any] = []
    for at, key in context.due():
        context.key, context.time = key, at
        emitted.extend(function.on_timer(at, context))
    return emitted


def writing(runtime: BareRuntime) -> Callable[[list[Any]], None]:
    """Returns a function that makes Arrow columns of the rows of an epoch, and of the values that it changed."""
    columns: dict[str, StructType] = {MAIN: columns_type(ALERTS, "the alerts"), **SIDE_OUTPUTS}
    outputs = {name: OutputWriter(name, struct) for name, struct in columns.items()}
    states = [(state, writer(_type_of(descriptor))) for descriptor, state in runtime.states]
    write_keys = writer(INPUT.types[_KEY])

    def write(emitted: list[Any]) -> None:
        main, tagged = split_by_tag(emitted)
        for name, rows in {MAIN: main, **tagged}.items():
            outputs[name].write(rows)
        for state, write_values in states:
            changed, state.changed = state.changed or set(), set()
            write_keys(list(changed))
            write_values([_without_stamps(state.by_key[key]) for key in changed])

    return write


def _type_of(descriptor: StateDescriptor) -> TypeInformation:
    """Returns the type of all that a state has for one key."""
    match descriptor:
        case ListStateDescriptor():
            return ListType(descriptor.type_info)
        case MapStateDescriptor():
            return MapType(descriptor.key_type_info, descriptor.type_info)
    return descriptor.type_info


def _without_stamps(value: Any) -> Any:
    return {key: part for key, (part, _) in value.items()} if isinstance(value, dict) else value


__all__ = ["WRITTEN", "run"]
