"""One operator with state of every kind, on either backend, against the same operator in plain Python.

In any order: records, time, failures, restarts, and restores of any snapshot at any parallelism into any backend.
Each emitted row, and each row of each snapshot, equals that of the model.
"""

import json
import shutil
import tempfile
from typing import Any, ClassVar

import pytest
from commands import KEYS, SHAPES, SPACES, Failed, Ttl, batches, broadcasts, keyed_states, names_of, reads_of, ttls
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from obedient import obedient_harness
from plain_operator import PlainOperator

from state_engine.api import EmbeddedRocksDBStateBackend, TimeDomain
from state_engine.backends.keys import Namespaced
from state_engine.errors import StateTypeChangedError, UserFunctionError
from state_engine.testing import OperatorSubtaskState

START = 100
"""Where event time begins, in ms."""

BACKENDS = st.sampled_from(["home", "home", "heap", "rocksdb"])


class Job(RuleBasedStateMachine):
    """The harness and the model; each rule does the same to both.

    Attributes:
        home: The backend on which it begins, and to which most restores return.
        shape: Of its keyed states: one without a time to live, one by processing time, one by event time.
    """

    home: ClassVar[str]
    shape: ClassVar[str]
    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.disk = tempfile.mkdtemp()

    @initialize(
        parallelism=st.integers(1, 3),
        by_clock=ttls(event=False),
        by_event=ttls(event=True),
    )
    def begin(self, parallelism: int, by_clock: Ttl, by_event: Ttl) -> None:
        self.names, self.ttls = names_of(self.shape), (by_clock, by_event)
        self.batches = batches(self.names)
        self.harness = self._harness(self.home, parallelism)
        self.model = PlainOperator(self._states())
        self.model.restore(self.model.sealed, parallelism)
        if by_event.incremental:  # before event time begins, clean-up dates the values that it happens to see
            self._move_watermark(START)

    def _states(self) -> dict[str, Any]:
        return keyed_states(self.names, *self.ttls)

    def _harness(self, backend: str, parallelism: int) -> Any:
        named: Any = backend
        if backend == "rocksdb":
            named = EmbeddedRocksDBStateBackend()
            named.set_db_storage_paths(self.disk)
        return obedient_harness([descriptor for descriptor, _ in self._states().values()], named, parallelism)

    # Records and time ---------------------------------------------------------------------------------------------

    @rule(epochs=st.runner().flatmap(lambda job: st.lists(job.epoch(), min_size=1, max_size=4)))
    def process(self, epochs: list[Any]) -> None:
        for passed, moved, batch, elements, restarts, looks in epochs:
            if passed:
                self.model.processing_time += passed
                self._compare(lambda: self.harness.set_processing_time(self.model.processing_time))
            if moved:
                self._move_watermark(moved)
            records, times = self._records(batch)
            self._process(records, times, [(call, json.dumps(arguments)) for call, arguments in elements])
            if restarts:
                self.harness.close()  # new instances go on from what was sealed, on the same host
            if looks:
                reads = [(k, space, read, "[]") for k in KEYS for space in SPACES for read in reads_of(self.names)]
                reads += [(k, None, read, "[]") for k in KEYS for read in ("notes.get", "union.get", "rules.items")]
                self._process(reads, [None] * len(reads), [])

    def epoch(self) -> st.SearchStrategy[Any]:
        """An epoch: how much time passes before it, its records; whether instances are made anew, and all is read."""
        rarely = st.sampled_from([False, False, False, True])
        return st.tuples(st.integers(0, 3), st.integers(0, 3), self.batches, broadcasts, rarely, st.booleans())

    @rule(
        batch=st.runner().flatmap(lambda job: job.batches),
        how=st.sampled_from(["the function raises", "a value does not fit"]),
    )
    def fail(self, batch: list[Any], how: str) -> None:
        """An epoch that was not sealed has no effect, whether the function failed or the end of the epoch."""
        records, times = self._records(batch)
        last = max(filter(None, times), default=0)
        with pytest.raises(Failed):
            self.model.epoch([], [*records, (KEYS[0], None, "fail", "[]")], [*times, last])
        call = ("fail", "[]") if how == "the function raises" else ("notes.add", '["text"]')
        with pytest.raises((UserFunctionError, StateTypeChangedError)):
            self._run([*records, (KEYS[0], None, *call)], [*times, last], [])

    def _move_watermark(self, ms: int) -> None:
        self.model.watermark = ms + (START if self.model.watermark is None else self.model.watermark)
        self._compare(lambda: self.harness.process_both_watermarks(self.model.watermark))

    def _records(self, batch: list[Any]) -> tuple[list[Any], list[int | None]]:
        """Returns commands with times that are near the present, and when they happen."""
        now = START if self.model.watermark is None else self.model.watermark
        records, times = [], []
        for key, space, (call, arguments), beside in batch:
            given = list(arguments)
            if call.endswith("event_time_timer"):
                given = [now + given[0]]
                if self.ttls[1].cleanup != "none" and self.model.watermark is not None:
                    given = [max(given[0], now + 1)]  # a timer in the past would see what has not been removed yet
            elif call.endswith("processing_time_timer"):
                given = [self.model.processing_time + given[0]]
            records.append((key, space, call, json.dumps(given)))
            times.append(None if beside == -2 else now + beside)
        return records, times

    def _process(self, records: list[Any], times: list[int | None], elements: list[Any]) -> None:
        self._compare(lambda: self._run(records, times, elements), elements, records, times)

    def _run(self, records: list[Any], times: list[int | None], elements: list[Any]) -> None:
        both = [*((2, element) for element in elements), *((1, record) for record in records)]
        self.harness.process_elements(both, [*(None for _ in elements), *times])

    def _compare(self, run: Any, elements: Any = (), records: Any = (), times: Any = ()) -> None:
        expected = self.model.epoch(elements, records, times)
        self.harness.clear_output()
        run()
        assert self.harness.extract_output_values() == expected

    # Restarts -----------------------------------------------------------------------------------------------------

    @rule(target=snapshots)
    def keep_a_snapshot(self) -> Any:
        return self._snapshot()

    def _snapshot(self) -> Any:
        taken = self.harness.snapshot()
        self._compare_rows(taken)
        return taken, self.model.sealed._replace(
            processing_time=self.model.processing_time, watermark=self.model.watermark
        )

    @rule(parallelism=st.integers(1, 3), backend=BACKENDS)
    def rescale(self, parallelism: int, backend: str) -> None:
        self._restore(self._snapshot(), parallelism, backend)

    @rule(taken=snapshots, parallelism=st.integers(1, 3), backend=BACKENDS)
    def go_back(self, taken: Any, parallelism: int, backend: str) -> None:
        """Restores any snapshot; what was sealed since is gone."""
        self._restore(taken, parallelism, backend)

    def _restore(self, taken: Any, parallelism: int, backend: str) -> None:
        self.harness.close()
        self.harness = self._harness(self.home if backend == "home" else backend, parallelism)
        self.harness.initialize_state(taken[0])
        self.model.restore(taken[1], parallelism)

    def _compare_rows(self, taken: OperatorSubtaskState) -> None:
        """Compares everything that is stored, with the time of last access where that matters."""
        model = self.model
        model.firing = None
        for name, state in model.keyed.items():
            ttl = self._states()[name][1]
            exact = ttl is None or ttl.cleanup == "none"
            stored: dict[Any, dict[Any, Any]] = {}
            for row in taken.table(name).to_pylist() if taken.has(name) else []:
                entry = row["k"] if row["namespace"] is None else Namespaced(row["k"], row["namespace"])
                value = tuple(row["value"].values()) if isinstance(row["value"], dict) else row["value"]
                at = None if ttl is None else row["last_access"]
                if exact or state.alive(at):
                    entries = stored.setdefault(entry, {})
                    entries[row["user_key"] if name.startswith("map") else len(entries)] = (value, at)
            expected: dict[Any, dict[Any, Any]] = {}
            for (of, entry), entries in model.sealed.cells.items():
                living = {k: tuple(cell) for k, cell in entries.items() if exact or state.alive(cell[1])}
                if of == name and living:
                    expected[entry] = living if name.startswith("map") else dict(enumerate(living.values()))
            assert stored == expected, name
        for domain in TimeDomain:
            timers: dict[Any, list[int]] = {}
            for time, entry in sorted(model.sealed.timers[domain], key=lambda timer: timer[0]):
                timers.setdefault(entry, []).append(time)
            assert taken.timers(domain) == timers
        for name, parts in model.sealed.lists.items():
            lists = taken.operator_states().get(name, [])
            assert [*lists, *([] for _ in parts[len(lists) :])] == parts, name
        assert taken.broadcast_states().get("rules", {}) == model.sealed.rules

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self._compare_rows(self.harness.snapshot())
            self.harness.close()
        shutil.rmtree(self.disk, ignore_errors=True)


@pytest.mark.hypothesis
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("home", ["heap", "rocksdb"])
def test_a_job_equals_its_plain_model(home: str, shape: str) -> None:
    machine = type("Job", (Job,), {"home": home, "shape": shape})
    some = settings(max_examples=settings.default.max_examples // 10, stateful_step_count=8)
    run_state_machine_as_test(machine, settings=some)
