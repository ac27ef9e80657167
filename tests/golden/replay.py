"""Runs a scenario in the harness of this project, and returns the output of each step."""

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from scenario import Element, EndOfInput, ProcessingTime, Scenario, Step, Watermark

from state_engine.api import KeyedProcessFunction, ProcessFunction
from state_engine.api.output_tag import columns_type
from state_engine.api.windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from state_engine.backends.time import NO_WATERMARK
from state_engine.runtime.adapters import Adapter, FilterAdapter, FlatMapAdapter, MapAdapter, ReduceAdapter
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.running import RunningAdapter
from state_engine.testing import (
    KeyedBroadcastOperatorTestHarness,
    KeyedOneInputStreamOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
)
from state_engine.testing.two_input_harness import TwoInputHarness
from state_engine.testing.window_harness import windowed_harness

END = 2**63 - 1
Harness = KeyedOneInputStreamOperatorTestHarness | TwoInputHarness
Found = dict[str, list[Any]]  # rows by output; the main output is called "rows"


class NotReplayedYet(Exception):
    """The harness cannot run this verb yet."""


def scenarios_of(group: str) -> list[Scenario]:
    """Returns the scenarios of a module.

    Raises:
        ImportError: The module uses a name that this project does not have.
    """
    scenarios: list[Scenario] = importlib.import_module(f"scenarios.{group}").SCENARIOS
    return scenarios


def scenario_of(group: str, name: str) -> Scenario:
    """Returns a scenario of a module.

    Raises:
        ImportError: The module uses a name that this project does not have.
    """
    (found,) = (scenario for scenario in scenarios_of(group) if scenario.name == name)
    return found


def each_step(scenario: Scenario) -> list[list[Step]]:
    """Returns every step by itself: each record is an epoch."""
    return [[step] for step in scenario.steps]


def records_together(scenario: Scenario) -> list[list[Step]]:
    """Joins consecutive records into one epoch while this keeps their order: an epoch has its records by time."""
    parts: list[list[Step]] = [[scenario.steps[0]]]
    for before, step in pairwise(scenario.steps):
        if isinstance(before, Element) and isinstance(step, Element) and (before.at or 0) <= (step.at or 0):
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts


def replay(
    scenario: Scenario, parts: Sequence[Sequence[Step]], *, restarts: bool = False, backends: Sequence[Any] = ("heap",)
) -> list[Found]:
    """Runs the parts of a script; returns the output of each.

    Args:
        scenario: The scenario.
        parts: Groups of steps; each group is one call.
        restarts: Whether a new harness goes on from a snapshot after every part, at another parallelism.
        backends: State backends, which the harnesses use in turn.
    """
    harness, results = make_harness(scenario, state_backend=backends[0]), []
    watermarks: dict[int, Step] = {}
    for number, part in enumerate(parts, 1):
        do(harness, part)
        watermarks |= {step.input: step for step in part if isinstance(step, Watermark)}
        if isinstance(part[-1], EndOfInput):
            watermarks.clear()
        results.append(outputs(harness, scenario))
        harness.clear_output()
        if restarts:
            snapshot = harness.snapshot()
            harness.close()
            backend = backends[number % len(backends)]
            harness = make_harness(scenario, parallelism=1 + number % 3, state_backend=backend)
            harness.initialize_state(snapshot)
            if isinstance(harness, TwoInputHarness):
                for step in watermarks.values():  # a snapshot has the operator's watermark, not those of its inputs
                    do(harness, [step])
    harness.close()
    return results


def do(harness: Harness, part: Sequence[Step]) -> None:
    """Executes the steps of one part."""
    two = isinstance(harness, TwoInputHarness)
    match part[0]:
        case Element():
            elements = [step for step in part if isinstance(step, Element)]
            times = [step.at for step in elements]
            records = [(step.input, step.row) if two else step.row for step in elements]
            harness.process_elements(records, None if all(time is None for time in times) else times)
        case Watermark(ms, number):
            move = getattr(harness, f"process_watermark{number}") if two else harness.process_watermark
            move(ms)
        case ProcessingTime(ms):
            harness.set_processing_time(ms)
        case EndOfInput():
            move = harness.process_both_watermarks if two else harness.process_watermark
            move(END)


def outputs(harness: Harness, scenario: Scenario) -> Found:
    """Returns the rows of all outputs as lists, as the files have them."""
    rows_by_output = {"rows": harness.extract_output_values()}
    rows_by_output |= {tag.tag_id: harness.get_side_output(tag) for tag in scenario.side_outputs}
    return {name: [list(row) for row in rows] for name, rows in rows_by_output.items()}


# The operator -------------------------------------------------------------------------------------------------------


def make_harness(scenario: Scenario, **options: Any) -> Harness:
    """Returns a harness around the operator of the scenario's verb.

    Args:
        scenario: The scenario.
        options: Of the harness: parallelism, state_backend.

    Raises:
        NotReplayedYet: There is no such harness.
    """
    if scenario.operation.verb in ("window", "count_window"):
        return _windowed(scenario, options)
    if scenario.operation.verb == "broadcast":
        return KeyedBroadcastOperatorTestHarness(
            scenario.operation.make(),
            scenario.key or (),
            scenario.input,
            scenario.input2 or scenario.input,
            scenario.output,
            scenario.operation.options["descriptors"](),
            **_options(scenario, options),
        )
    if scenario.operation.verb.startswith("co_"):
        return KeyedTwoInputStreamOperatorTestHarness(
            scenario.operation.make(),
            scenario.key or (),
            scenario.key or (),
            scenario.input,
            scenario.input2 or scenario.input,
            scenario.output,
            **_options(scenario, options),
        )
    return KeyedOneInputStreamOperatorTestHarness(
        _function(scenario),
        scenario.key or (),
        scenario.input,
        scenario.output,
        **_options(scenario, options),
    )


def _options(scenario: Scenario, options: dict[str, Any]) -> dict[str, Any]:
    return {"side_outputs": scenario.side_outputs, **options}


def _windowed(scenario: Scenario, options: dict[str, Any]) -> KeyedOneInputStreamOperatorTestHarness:
    operation = scenario.operation
    assigner = operation.make()
    if operation.verb == "count_window":
        made = CountTumblingWindowAssigner if len(assigner) == 1 else CountSlidingWindowAssigner
        assigner = made.of(*assigner)
    assert scenario.key is not None
    stream = windowed_harness(assigner, scenario.key, scenario.input, **_options(scenario, options))
    if "trigger" in operation.options:
        stream.trigger(operation.option("trigger"))
    if "allowed_lateness" in operation.options:
        stream.allowed_lateness(operation.option("allowed_lateness"))
    if "late" in operation.options:
        stream.side_output_late_data(operation.options["late"])
    function = operation.option("function")
    match operation.option("how"):
        case "process":
            return stream.process(function, scenario.output)
        case "apply":
            return stream.apply(function, scenario.output)
        case "reduce":
            return stream.reduce(operation.option("fold"), function, scenario.output)
        case _:
            accumulator = operation.option("accumulator")
            return stream.aggregate(operation.option("fold"), function, accumulator, scenario.output)


def _function(scenario: Scenario) -> Any:
    operation = scenario.operation
    if operation.verb == "process":
        return operation.make()
    columns = columns_type(scenario.input, "the input")
    adapters: dict[str, Callable[[], Adapter]] = {
        "map": lambda: MapAdapter(operation.make()),
        "flat_map": lambda: FlatMapAdapter(operation.make()),
        "filter": lambda: FilterAdapter(operation.make()),
        "reduce": lambda: ReduceAdapter(operation.make(), columns),
        "sum": lambda: RunningAdapter("sum", operation.make(), columns),
        "min": lambda: RunningAdapter("min", operation.make(), columns),
        "max": lambda: RunningAdapter("max", operation.make(), columns),
        "min_by": lambda: RunningAdapter("min_by", operation.make(), columns),
        "max_by": lambda: RunningAdapter("max_by", operation.make(), columns),
    }
    if operation.verb not in adapters:
        raise NotReplayedYet(operation.verb)
    adapter = adapters[operation.verb]()
    return Plain(adapter) if scenario.key is None else Keyed(adapter)


class _Delegates:
    """Wraps an adapter, as a stream does, into a function that the harness takes."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def open(self, runtime_context: Any) -> None:
        self._adapter.open(runtime_context)

    def close(self) -> None:
        self._adapter.close()

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self._adapter.process_element(value, ctx)


class Keyed(_Delegates, KeyedProcessFunction):
    pass


class Plain(_Delegates, ProcessFunction):
    pass


# Times --------------------------------------------------------------------------------------------------------------


def replay_times(scenario: Scenario) -> list[tuple[list[tuple[list[Any], int | None]], int | None]]:
    """Runs a script step by step; returns for each the main output's rows with their timestamps, and the watermark.

    Rows carry timestamps if a downstream operator requires them. The watermark is the one that the driver passes on;
    None if the step did not move it.
    """
    harness, results = make_harness(scenario), []
    times = _ask_for_times(harness)
    before = NO_WATERMARK
    for step in scenario.steps:
        do(harness, [step])
        rows = outputs(harness, scenario)["rows"]
        after = harness._instances.watermark
        results.append((list(zip(rows, times, strict=True)), None if after == before else after))
        before = after
        harness.clear_output()
        times.clear()
    harness.close()
    return results


def _ask_for_times(harness: Harness) -> list[int | None]:
    """Makes the operator emit timestamps, as a downstream operator would; returns the list that collects them."""
    times: list[int | None] = []
    instances, add = harness._instances, harness._output.add
    instances._spec = dataclasses.replace(instances._spec, emits_event_time=True)

    def without_times(batches: dict[str, pa.RecordBatch]) -> None:
        main = batches.get(MAIN)
        if main is not None:
            times.extend(main.column(EVENT_TIME).to_pylist())
            batches = {**batches, MAIN: main.drop_columns([EVENT_TIME])}
        add(batches)

    harness._output.add = without_times  # type: ignore[method-assign]
    return times


# What was recorded --------------------------------------------------------------------------------------------------


def recorded_outputs(steps: Sequence[dict[str, Any]], tags: Iterable[str]) -> Iterator[Found]:
    """Yields the output of each recorded step without the timestamps of rows (README.md explains why)."""
    for step in steps:
        side = step.get("side", {})
        rows = {"rows": step["rows"]} | {tag: side.get(tag, []) for tag in tags}
        yield {name: [row for row, _ in found] for name, found in rows.items()}


def joined(found: Iterable[Found]) -> Found:
    """Returns the outputs of several steps as those of one."""
    whole: Found = {}
    for one in found:
        for name, rows in one.items():
            whole.setdefault(name, []).extend(rows)
    return whole
