"""Runs `dagster_ticks` in its own process: `python -m benchmarks.tick_child <case.json>`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import dagster as dg
import msgspec
from dagster._core.instance import InstanceRef

from benchmarks.dagster_ticks import ROWS
from benchmarks.tick_history import JOB, TickHistory
from benchmarks.tick_model import Form, Tick, TickCase
from lakestate.assets import checkpoint_key
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.resources import RestClientResource, StateStoreResource

LOAD = """
import sys
from lakestate.definitions import defs
defs.get_repository_def()
sys.exit(bool({name.split(".")[0] for name in sys.modules} & {"pyspark", "py4j"}))
"""


class Ticks:
    """Runs ticks of the reporter over one history as the daemon does: the events are written, then the cursor.

    Args:
        case: The case.
    """

    def __init__(self, case: TickCase) -> None:
        self._case, self._work = case, Path(case.work)
        root = str(self._work / "state")
        self._resources = {"state_store": StateStoreResource(root=root), "rest_client": RestClientResource(root=root)}
        self._history = TickHistory(self._work / "state", case.states, case.keys)
        self._history.write(case.checkpoints - 1)

    def rows(self) -> Iterator[Tick]:
        """Yields a row for each form."""
        yield self._load()
        yield self._backlog()
        with self._instance("home") as instance:
            self._tick(instance)
            for _ in range(self._case.events):
                event = instance.get_latest_materialization_event(checkpoint_key(JOB))
                assert event is not None
                assert event.asset_materialization is not None
                instance.report_runless_asset_event(event.asset_materialization)
            yield self._after(instance, "history")
            yield self._after(instance, "idle")

    def _load(self) -> Tick:
        seconds, codes = [], []
        environment = os.environ | {"LAKESTATE_ROOT": str(self._work / "state")}
        for _ in range(self._case.rounds):
            began = time.perf_counter()
            codes.append(subprocess.run([sys.executable, "-c", LOAD], env=environment, cwd=self._work).returncode)
            seconds.append(time.perf_counter() - began)
        return self._row("load", seconds, [0], not any(codes))

    def _backlog(self) -> Tick:
        seconds, events, right = [], [], []
        for number in range(self._case.rounds):
            with self._instance(f"backlog-{number}") as instance:
                took, written = self._tick(instance)
                seconds.append(took)
                events.append(written)
                right.append(self._newest(instance) == (self._case.checkpoints, self._case.checkpoints - 1))
        return self._row("backlog", seconds, events, all(right))

    def _after(self, instance: dg.DagsterInstance, form: Form) -> Tick:
        seconds, events, right = [], [], []
        for _ in range(self._case.rounds):
            wanted = (self._history.publish(), 0) if form == "history" else self._newest(instance)
            took, written = self._tick(instance)
            seconds.append(took)
            events.append(written)
            right.append(self._newest(instance) == wanted)
        return self._row(form, seconds, events, all(right))

    def _instance(self, name: str) -> dg.DagsterInstance:
        home = self._work / name
        home.mkdir()
        return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home)))

    def _tick(self, instance: dg.DagsterInstance) -> tuple[float, int]:
        """Returns seconds and events of one tick of a new code server, which has no cached state."""
        sensor = build_checkpoint_sensor(JOB)
        began = time.perf_counter()
        with dg.build_sensor_context(instance, resources=self._resources) as context:
            result = sensor(context)
        events = result.asset_events if isinstance(result, dg.SensorResult) else ()
        for event in events:
            instance.report_runless_asset_event(event)
        return time.perf_counter() - began, len(events)

    def _newest(self, instance: dg.DagsterInstance) -> tuple[object, object]:
        event = instance.get_latest_materialization_event(checkpoint_key(JOB))
        metadata = event.asset_materialization.metadata if event is not None and event.asset_materialization else {}
        return metadata["checkpoint_id"].value, metadata["skipped_checkpoints"].value

    def _row(self, form: Form, seconds: list[float], events: list[int], right: bool) -> Tick:
        return Tick(
            form=form,
            checkpoints=self._case.checkpoints,
            states=self._case.states,
            runs=len(seconds),
            median_seconds=round(median(seconds), 4),
            max_seconds=round(max(seconds), 4),
            events=max(events),
            results_equal=right,
        )


def main(path: str) -> None:
    """Runs a case and writes the rows of the report to its folder."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=TickCase)
    (Path(case.work) / ROWS).write_bytes(msgspec.json.encode(list(Ticks(case).rows())))


if __name__ == "__main__":
    main(sys.argv[1])
