"""`all`: runs every workload, and writes one folder: a report in Markdown, its rows as JSON, and pictures.

The result of each workload is a separate file, and the report is rewritten after each workload. A run that is stopped
keeps its results, and the next run may continue from them.
"""

import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pyspark
from rich.console import Console

from benchmarks import (
    dagster_partitions,
    dagster_ticks,
    long_life,
    operation_report,
    operations,
    plots,
    report,
    state_backends,
    state_sizes,
    streams,
    worker_memory,
)
from benchmarks.dagster_partitions import DAGSTER_PARTITIONS, SIZES, PartitionRow
from benchmarks.failover import measure as failover
from benchmarks.failover.model import FAILOVER, FailoverRow
from benchmarks.forms import measure as forms
from benchmarks.forms.model import WORKLOADS as FORMS
from benchmarks.forms.model import FormRow, Sizes
from benchmarks.fraud import measure as fraud
from benchmarks.latency import measure as latency
from benchmarks.latency.model import LATENCY, LatencyRow
from benchmarks.loads import kafka, postgresql
from benchmarks.loads import model as loads
from benchmarks.loads.model import KAFKA, POSTGRESQL, LoadRow
from benchmarks.long_life import LONG_LIFE, LifeRow
from benchmarks.model import FRAUD, NEXMARK, RUNNING_COUNT, STATE_BACKENDS, WORKER_MEMORY, Result, Verdict
from benchmarks.nexmark import measure as nexmark
from benchmarks.operation_model import OPERATIONS, PARTS, Operation
from benchmarks.plots import Row
from benchmarks.requests import measure as requests
from benchmarks.requests.model import REQUESTS, RequestRow
from benchmarks.scale import measure as scale
from benchmarks.scale.model import SCALE, ScaleRow
from benchmarks.state_sizes import Epochs
from benchmarks.streams import Plan
from benchmarks.thresholds import passed, unmeasured
from benchmarks.tick_model import DAGSTER_TICKS, Tick
from benchmarks.workloads import WORKLOADS
from state_engine.text import UNDECODABLE

Tell = Callable[[str], None]


class Measured(Protocol):
    """The report of a workload."""

    @property
    def results(self) -> Sequence[Any]:
        """Its rows."""

    @property
    def failures(self) -> Sequence[str]:
        """What failed."""


class Part(NamedTuple):
    """A workload.

    Attributes:
        about: What it does, in one line.
        measure: Runs it in a folder.
        show: Prints its rows as a Markdown table.
        row: Type of its rows.
        small: Whether it uses sizes that only show whether it works.
    """

    about: str
    measure: Callable[[Path, Tell], Measured]
    show: Callable[[Any, Console], None] = report.show
    row: type[Row] = Result
    small: bool = False


class ForeignFileError(Exception):
    """A file in the folder of a report was not written by a run of this code."""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a workload, as its file stores it.

    Attributes:
        measured: When, on which machine, by which code.
        small: Whether it used sizes that only show whether it works.
        failures: What failed.
        rows: JSON objects, as in the report.
    """

    measured: str
    small: bool
    failures: list[str]
    rows: list[msgspec.Raw]


def parts(*, small: bool) -> dict[str, Part]:
    """Returns all workloads by name.

    Args:
        small: Whether to use sizes that only show whether they work; otherwise those of the thresholds.
    """
    keys = [2_000, 4_000] if small else [10_000, 100_000, 1_000_000, 10_000_000]
    sizes, checkpoints = (operations.SMALL, 20) if small else (operations.FULL, 10_000)
    queries, large = nexmark.Plan(engines=nexmark.installed_engines()), state_sizes.LARGE
    business, arrivals, kills = fraud.Plan(), latency.Plan(), failover.Plan()
    if small:
        arrivals = arrivals._replace(keys=(2_000,), warm=2, files=5)
        kills = kills._replace(keys=(2_000,), kills=1)
        business = business._replace(cards=200, alone=1_000, epochs=5, streams=(2_000,))
        large = large._replace(records=20_000, touched=1_000, least=10)
        queries = queries._replace(epoch_events=10_000, epochs=5)
    workloads = {name: _stream(name, small=small) for name in WORKLOADS} | {
        NEXMARK: Part(
            "Queries of Nexmark that need state, in each form, next to SQL of Spark and Flink, and a DuckDB batch.",
            lambda folder, tell: nexmark.measure(queries, folder, tell),
        ),
        FRAUD: Part(
            fraud.ABOUT,
            lambda folder, tell: fraud.measure(business, folder, tell),
        ),
        LATENCY: Part(
            latency.ABOUT,
            lambda folder, tell: latency.measure(arrivals, folder, tell),
            latency.show,
            LatencyRow,
        ),
        FAILOVER: Part(
            failover.ABOUT,
            lambda folder, tell: failover.measure(kills, folder, tell),
            failover.show,
            FailoverRow,
        ),
        LONG_LIFE: Part(
            long_life.ABOUT,
            lambda folder, tell: long_life.measure(folder, tell, 30 if small else 1_000),
            long_life.show,
            LifeRow,
        ),
        **{name: _forms(name, small=small) for name in FORMS},
        DAGSTER_PARTITIONS: Part(
            "What as many savepoints cost Dagster as `restored_state` may have partitions.",
            lambda folder, tell: dagster_partitions.measure(folder, tell, (2,) if small else SIZES, 3),
            dagster_partitions.show,
            PartitionRow,
        ),
        POSTGRESQL: Part(
            "An epoch into a table of PostgreSQL, next to the bare bulk load of the same driver.",
            lambda folder, tell: postgresql.measure(folder, tell, 20_000 if small else postgresql.ROWS),
            loads.show,
            LoadRow,
        ),
        KAFKA: Part(
            "An epoch into a topic of Kafka, next to a loop of the same client.",
            lambda folder, tell: kafka.measure(folder, tell, 20_000 if small else kafka.ROWS),
            loads.show,
            LoadRow,
        ),
        **{epochs.workload: _sizes(epochs, keys) for epochs in (state_sizes.SMALL, large)},
        STATE_BACKENDS: Part(
            "Epochs that touch the same number of keys of small and large states, without Spark.",
            lambda folder, tell: state_backends.measure(folder, tell, [2_000, 40_000] if small else keys),
        ),
        WORKER_MEMORY: Part(
            "The memory of a Python worker.",
            lambda folder, tell: worker_memory.measure(folder, tell, 20_000 if small else worker_memory.KEYS),
        ),
        OPERATIONS: Part(
            "Savepoints during a stream; canonical ones, restores, rescales, checkpoints, next to PySpark and Flink.",
            lambda folder, tell: operations.measure(folder, tell, sizes, PARTS, "heap"),
            operation_report.show,
            Operation,
        ),
        DAGSTER_TICKS: Part(
            "Ticks of Dagster's reporter over a long history, and the load of its code location.",
            lambda folder, tell: dagster_ticks.measure(folder, tell, checkpoints, 6, 2_000, 300, 2 if small else 5),
            dagster_ticks.show,
            Tick,
        ),
        SCALE: Part(
            scale.ABOUT,
            lambda folder, tell: scale.measure(folder, tell, scale.SMALL if small else scale.FULL),
            scale.show,
            ScaleRow,
        ),
        REQUESTS: Part(
            requests.ABOUT,
            lambda folder, tell: requests.measure(folder, tell, requests.SMALL if small else requests.FULL),
            requests.show,
            RequestRow,
        ),
    }
    return {name: part._replace(small=small) for name, part in workloads.items()}


def _sizes(epochs: Epochs, keys: Sequence[int]) -> Part:
    return Part(epochs.about, lambda folder, tell: state_sizes.measure(epochs, folder, tell, keys, epochs.engines))


def _forms(name: str, *, small: bool) -> Part:
    sizes = Sizes(keys=50, epoch=500, epochs=2, rounds=1) if small else FORMS[name].sizes
    return Part(FORMS[name].about, lambda folder, tell: forms.measure(name, folder, tell, sizes), forms.show, FormRow)


def _stream(name: str, *, small: bool) -> Part:
    plan = plan_of(name, small=small)
    return Part(WORKLOADS[name].about, lambda folder, tell: streams.measure(plan, folder, tell))


def plan_of(name: str, *, small: bool) -> Plan:
    """Returns the plan of a streaming workload.

    Args:
        name: A name in `WORKLOADS`.
        small: Whether to use sizes that only show whether it works.
    """
    workload = WORKLOADS[name]
    plan = Plan(workload=name, engines=streams.installed_engines(workload), key_types=workload.key_types)
    if small:
        return plan._replace(records=100_000, keys=5_000, epochs=(20_000,), least_epochs=5)
    # Only the running count varies the size of epochs; for the others this would take twice as long.
    return plan if name == RUNNING_COUNT else plan._replace(epochs=(1_000_000,))


class Everything(NamedTuple):
    """The result of a run: all rows, and failures with the name of their workload."""

    rows: list[Row]
    failures: list[str]


def measure(chosen: Mapping[str, Part], folder: Path, out: Path, tell: Tell, *, go_on: bool = False) -> Everything:
    """Runs workloads, and writes `report.md`, `report.json`, `<workload>.json` and `<workload>.svg`.

    Args:
        chosen: The workloads, by name.
        folder: Folder for data and state.
        out: Folder for the report; it is created.
        tell: Called with lines of progress.
        go_on: Whether to skip workloads with results without a failure in `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    everything, text = Everything([], []), ["# Benchmarks\n"]
    for number, (name, part) in enumerate(chosen.items(), 1):
        kept = kept_of(name, part, out) if go_on else None
        if kept is None:
            tell(f"{name}, {number} of {len(chosen)} workloads")
            kept = _keep(part, part.measure(folder / name, tell), out / f"{name}.json")
        else:
            tell(f"{name}, {number} of {len(chosen)} workloads: kept ({kept.measured})")
        rows = _rows_of(kept, part)
        drawn = plots.draw(rows, out / f"{name}.svg")
        everything.rows.extend(rows)
        everything.failures.extend(f"{name}: {failure}" for failure in kept.failures)
        text.append(_section(name, part, kept, rows, drawn=drawn))
        (out / "report.md").write_text("\n".join(text))
        report.write_json(everything.rows, out / "report.json")
    return everything


def kept_of(name: str, part: Part, out: Path) -> Kept | None:
    """Returns the earlier result of a workload of these sizes; None if it was not run, or something failed.

    Raises:
        ForeignFileError: The file was not written by a run of this code.
    """
    path = out / f"{name}.json"
    if not path.exists():
        return None
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
        _rows_of(kept, part)
    except UNDECODABLE as error:
        raise ForeignFileError(
            f"{path} is not a result of a workload ({error}). Remove it, and the workload is measured anew, or choose "
            "another folder with --out."
        ) from error
    return None if kept.failures or kept.small != part.small else kept


def _rows_of(kept: Kept, part: Part) -> list[Row]:
    return [msgspec.json.decode(row, type=part.row) for row in kept.rows]


def _keep(part: Part, measured: Measured, path: Path) -> Kept:
    """Writes the result of a workload; the file appears whole or not at all."""
    rows = [msgspec.Raw(msgspec.json.encode(row)) for row in measured.results]
    kept = Kept(machine(), part.small, list(measured.failures), rows)
    written = path.with_suffix(".part")
    written.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    written.replace(path)
    return kept


def add_verdicts(verdicts: Sequence[Verdict], out: Path) -> None:
    """Appends the verdicts to the report, and a table of the thresholds that were not measured."""
    with (out / "report.md").open("a") as file:
        file.write("\n## Thresholds\n\n")
        for line in _printed(lambda console: report.show_verdicts(verdicts, console)).splitlines():
            file.write(f"* {line}\n")
        if unmeasured(verdicts):
            table = _printed(lambda console: report.show_unmeasured(verdicts, console)).strip("\n")
            file.write(f"\n## Thresholds that were not measured\n\n{table}\n")


def reached(verdicts: Sequence[Verdict], *, small: bool) -> bool:
    """Returns whether all thresholds were measured and reached; small sizes need not measure all of them."""
    return passed(verdicts) and (small or not unmeasured(verdicts))


def machine() -> str:
    """Returns the date, the machine and the version of the code."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    day = datetime.now(UTC).date().isoformat()
    software = f"Python {platform.python_version()}, Spark {pyspark.__version__}{_code()}"
    return f"{day}, {os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GiB, {software}"


def _code() -> str:
    """Returns the commit; an empty text if the code is not a git checkout."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f", commit {described.stdout.strip()}"


def _section(name: str, part: Part, kept: Kept, rows: Sequence[Row], *, drawn: bool) -> str:
    picture = f"\n![{name}]({name}.svg)\n" if drawn else ""
    failures = "".join(f"\n* failed: {failure}" for failure in kept.failures)
    table = _printed(lambda console: part.show(rows, console)).strip("\n")
    return f"## {name}\n\n{part.about} {kept.measured}.\n\n{table}\n{picture}{failures}"


def _printed(show: Callable[[Console], None]) -> str:
    console = Console(width=report.WIDTH, file=StringIO(), record=True)
    show(console)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


__all__ = ["Everything", "Part", "add_verdicts", "kept_of", "measure", "parts", "plan_of", "reached"]
