"""`python -m benchmarks`: the command line of the benchmarks.

Longer than 500 lines because each workload is a command with options of its own, and all of them are one list.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import (
    dagster_partitions,
    dagster_ticks,
    everything,
    long_life,
    operation_report,
    operations,
    state_backends,
    state_sizes,
    streams,
    thresholds,
    worker_memory,
)
from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.everything import Measured
from benchmarks.failover import measure as failover
from benchmarks.failover.model import ENGINES as FAILOVER_ENGINES
from benchmarks.forms import measure as forms
from benchmarks.forms.model import WORKLOADS as FORMS
from benchmarks.forms.model import Sizes
from benchmarks.fraud import measure as fraud
from benchmarks.latency import measure as latency
from benchmarks.latency.model import ENGINES as LATENCY_ENGINES
from benchmarks.loads import kafka, postgresql
from benchmarks.loads import model as loads
from benchmarks.model import FRAUD_ENGINES, NEXMARK_ENGINES
from benchmarks.nexmark import measure as nexmark
from benchmarks.nexmark.queries import QUERIES
from benchmarks.operation_model import OPERATION_ENGINES, PARTS
from benchmarks.plots import Row
from benchmarks.report import WIDTH, show, show_unmeasured, show_verdicts, write_json
from benchmarks.requests import measure as requests
from benchmarks.scale import measure as scale
from benchmarks.state_sizes import Epochs
from benchmarks.steady import LEAST_EPOCHS, MIN_EPOCHS
from benchmarks.streams import Plan
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.workload import Workload

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)

Json = Annotated[Path | None, typer.Option("--json", help="Also write the rows to this file.")]
Check = Annotated[bool, typer.Option("--check", help="Fail if a threshold is not reached.")]
Work = Annotated[Path | None, typer.Option(help="Folder for data and state; a temporary one by default.")]


def count(text: str) -> int:
    """Reads a number of records: `200000`, `200_000`, `200k`, `1m`."""
    digits, factor = text.strip().lower(), 1
    for suffix, value in (("k", 1_000), ("m", 1_000_000)):
        if digits.endswith(suffix):
            digits, factor = digits[:-1], value
    try:
        number = int(float(digits) * factor)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text!r} is not a number of records, such as 200k.")
    return number


def names(text: str, known: tuple[str, ...]) -> list[str]:
    """Reads a list of names separated by commas."""
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise typer.BadParameter(f"{text!r}: choose from {', '.join(known)}.")
    return list(dict.fromkeys(chosen))


def stream_command(workload: Workload) -> Callable[..., None]:
    """Returns the command of a streaming workload; all of them have the same options."""

    def run(
        json: Json = None,
        check: Check = False,
        records: Annotated[str, typer.Option(help="Size of the data set.")] = "2m",
        keys: Annotated[str, typer.Option(help="Number of keys from which it is drawn.")] = "100k",
        epochs: Annotated[str, typer.Option(help="Sizes of epochs.")] = "200k,1m",
        engines: Annotated[
            str, typer.Option(help="Which engines; those of Flink need `make flink`, and are skipped without it.")
        ] = ",".join(streams.installed_engines(workload)),
        key_types: Annotated[str, typer.Option(help="Types of keys.")] = ",".join(workload.key_types),
        least_epochs: Annotated[
            int, typer.Option(min=MIN_EPOCHS, help="The data set is replayed until it fills this number of epochs.")
        ] = LEAST_EPOCHS,
        slow_epochs: Annotated[
            int, typer.Option(min=MIN_EPOCHS, help="Epochs that transformWithState and PyFlink read.")
        ] = MIN_EPOCHS,
        rounds: Annotated[int, typer.Option(min=1, help="Runs of each case, engines in turn; shows the median.")] = 1,
        work: Work = None,
    ) -> None:
        plan = Plan(
            workload=workload.name,
            engines=names(engines, workload.engines),
            records=count(records),
            keys=count(keys),
            epochs=[count(epoch) for epoch in epochs.split(",")],
            key_types=names(key_types, workload.key_types),
            least_epochs=least_epochs,
            slow_epochs=slow_epochs,
            rounds=rounds,
        )
        with folder_at(work) as folder:
            finish(streams.measure(plan, folder, tell), json, check)

    return run


for each in WORKLOADS.values():
    app.command(each.name, help=each.about)(stream_command(each))


@app.command("nexmark")
def run_nexmark(
    json: Json = None,
    check: Check = False,
    queries: Annotated[str, typer.Option(help="Which queries.")] = ",".join(QUERIES),
    engines: Annotated[
        str, typer.Option(help="Which engines; Flink needs `make flink`, and is skipped without it.")
    ] = ",".join(name.removeprefix("nexmark/") for name in nexmark.installed_engines()),
    epoch: Annotated[str, typer.Option(help="Events per epoch.")] = "500k",
    epochs: Annotated[int, typer.Option(min=MIN_EPOCHS, help="Number of epochs.")] = LEAST_EPOCHS,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each case, engines in turn; shows the median.")] = 1,
    work: Work = None,
) -> None:
    """The queries of Nexmark that need state, in each form, next to SQL of Spark and Flink, and a DuckDB batch."""
    known = tuple(name.removeprefix("nexmark/") for name in NEXMARK_ENGINES)
    plan = nexmark.Plan(
        queries=names(queries, tuple(QUERIES)),
        engines=[f"nexmark/{name}" for name in names(engines, known)],
        epoch_events=count(epoch),
        epochs=epochs,
        rounds=rounds,
    )
    with folder_at(work) as folder:
        finish(nexmark.measure(plan, folder, tell), json, check)


@app.command("fraud", help=fraud.ABOUT)
def run_fraud(
    json: Json = None,
    check: Check = False,
    engines: Annotated[str, typer.Option(help="Which forms.")] = ",".join(
        name.removeprefix("fraud/") for name in FRAUD_ENGINES
    ),
    cards: Annotated[str, typer.Option(help="Number of cards.")] = "5k",
    alone: Annotated[str, typer.Option(help="Records of an epoch without Spark.")] = "10k",
    epochs: Annotated[int, typer.Option(min=MIN_EPOCHS, help="Number of epochs, of each size.")] = LEAST_EPOCHS,
    streams: Annotated[str, typer.Option(help="Sizes of the stream's epochs.")] = "10k,100k",
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each case, engines in turn; shows the median.")] = 1,
    work: Work = None,
) -> None:
    known = tuple(name.removeprefix("fraud/") for name in FRAUD_ENGINES)
    plan = fraud.Plan(
        engines=[f"fraud/{name}" for name in names(engines, known)],
        cards=count(cards),
        alone=count(alone),
        epochs=epochs,
        streams=[count(epoch) for epoch in streams.split(",")],
        rounds=rounds,
    )
    with folder_at(work) as folder:
        finish(fraud.measure(plan, folder, tell), json, check)


@app.command("latency", help=latency.ABOUT)
def run_latency(
    json: Json = None,
    check: Check = False,
    engines: Annotated[str, typer.Option(help="Which engines.")] = ",".join(LATENCY_ENGINES),
    keys: Annotated[str, typer.Option(help="Numbers of keys with state.")] = "100k",
    triggers: Annotated[str, typer.Option(help="Trigger intervals of Lakestate, in ms.")] = "0",
    warm: Annotated[int, typer.Option(min=0, help="Files of each pace before those that count.")] = 15,
    files: Annotated[int, typer.Option(min=1, help="Files of each pace.")] = 100,
    work: Work = None,
) -> None:
    plan = latency.Plan(
        engines=names(engines, LATENCY_ENGINES),  # type: ignore[arg-type]
        keys=[count(number) for number in keys.split(",")],
        triggers=[int(interval) for interval in triggers.split(",")],
        warm=warm,
        files=files,
    )
    with folder_at(work) as folder:
        report = latency.measure(plan, folder, tell)
    finish(report, json, check, latency.show)


@app.command("failover", help=failover.ABOUT)
def run_failover(
    json: Json = None,
    check: Check = False,
    engines: Annotated[str, typer.Option(help="Which engines.")] = ",".join(FAILOVER_ENGINES),
    keys: Annotated[str, typer.Option(help="Numbers of keys with state, of Lakestate.")] = "10k,1m,10m",
    kills: Annotated[int, typer.Option(min=1, help="How often each is killed.")] = 3,
    work: Work = None,
) -> None:
    plan = failover.Plan(
        engines=names(engines, FAILOVER_ENGINES),  # type: ignore[arg-type]
        keys=[count(number) for number in keys.split(",")],
        kills=kills,
    )
    with folder_at(work) as folder:
        report = failover.measure(plan, folder, tell)
    finish(report, json, check, failover.show)


@app.command("long_life", help=long_life.ABOUT)
def run_long_life(
    json: Json = None,
    check: Check = False,
    epochs: Annotated[str, typer.Option(help="Number of epochs.")] = "1k",
    work: Work = None,
) -> None:
    with folder_at(work) as folder:
        report = long_life.measure(folder, tell, count(epochs))
    finish(report, json, check, long_life.show)


def add_forms(name: str) -> None:
    """Adds the command of a workload of forms in turn."""
    usual = FORMS[name].sizes

    @app.command(name, help=FORMS[name].about)
    def run(
        json: Json = None,
        check: Check = False,
        keys: Annotated[str, typer.Option(help="Number of keys.")] = str(usual.keys),
        epoch: Annotated[str, typer.Option(help="Records of an epoch.")] = str(usual.epoch),
        epochs: Annotated[int, typer.Option(min=2, help="Number of epochs; the first does not count.")] = usual.epochs,
        rounds: Annotated[
            int, typer.Option(min=1, help="Runs of each form, in turn; shows the median.")
        ] = usual.rounds,
        work: Work = None,
    ) -> None:
        with folder_at(work) as folder:
            report = forms.measure(name, folder, tell, Sizes(count(keys), count(epoch), epochs, rounds))
        finish(report, json, check, forms.show)


for form_workload in FORMS:
    add_forms(form_workload)


@app.command("worker_memory")
def run_worker_memory(
    json: Json = None,
    check: Check = False,
    keys: Annotated[
        str, typer.Option(help="Number of keys on the heap, all subtasks together; RocksDB gets a fifth.")
    ] = "2m",
    backends: Annotated[str, typer.Option(help="Which state backends.")] = ",".join(worker_memory.BACKENDS),
    memory_mb: Annotated[
        int, typer.Option(min=8, help="Limit of RocksDB's block cache and write buffers in one worker, in MiB.")
    ] = worker_memory.MEMORY_MB,
    work: Work = None,
) -> None:
    """The memory of a Python worker: a million keys of three numbers on the heap, 100 MiB in RocksDB."""
    chosen = names(backends, worker_memory.BACKENDS)
    with folder_at(work) as folder:
        finish(worker_memory.measure(folder, tell, count(keys), chosen, memory_mb), json, check)


@app.command("state_backends")
def run_state_backends(
    json: Json = None,
    check: Check = False,
    keys: Annotated[str, typer.Option(help="Numbers of keys; 10m takes a while.")] = "10k,100k,1m",
    shapes: Annotated[str, typer.Option(help="Shapes of state.")] = ",".join(state_backends.SHAPES),
    backends: Annotated[str, typer.Option(help="Which state backends.")] = ",".join(state_backends.BACKENDS),
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each case, backends in turn; the median is shown.")] = 1,
    work: Work = None,
) -> None:
    """Heap against RocksDB without Spark: epochs that touch the same number of keys of small and large states."""
    chosen, stores = names(shapes, state_backends.SHAPES), names(backends, state_backends.BACKENDS)
    with folder_at(work) as folder:
        sizes = [count(n) for n in keys.split(",")]
        finish(state_backends.measure(folder, tell, sizes, chosen, rounds, stores), json, check)


def sizes_command(epochs: Epochs) -> Callable[..., None]:
    """Returns the command of a workload that runs over states of several sizes."""

    def run(
        json: Json = None,
        check: Check = False,
        keys: Annotated[str, typer.Option(help="Numbers of keys; 10m takes some minutes.")] = "10k,100k,1m",
        engines: Annotated[str, typer.Option(help="Which forms and backends.")] = ",".join(epochs.engines),
        rounds: Annotated[int, typer.Option(min=1, help="Runs of each case, in turn; the median is shown.")] = 1,
        work: Work = None,
    ) -> None:
        chosen, sizes = names(engines, epochs.engines), [count(n) for n in keys.split(",")]
        with folder_at(work) as folder:
            finish(state_sizes.measure(epochs, folder, tell, sizes, chosen, rounds), json, check)

    return run


for of_sizes in (state_sizes.SMALL, state_sizes.LARGE):
    app.command(of_sizes.workload, help=of_sizes.about)(sizes_command(of_sizes))


@app.command("operations")
def run_operations(
    json: Json = None,
    check: Check = False,
    parts: Annotated[str, typer.Option(help="Which parts.")] = ",".join(PARTS),
    full: Annotated[
        bool | None,
        typer.Option("--full/--small", help="The sizes of the thresholds, or small sizes; full with --check."),
    ] = None,
    stream_keys: Annotated[str | None, typer.Option(help="Numbers of keys of the streaming jobs (native).")] = None,
    epoch: Annotated[str | None, typer.Option(help="Records of an epoch of the stream (native).")] = None,
    savepoints: Annotated[int | None, typer.Option(min=1, help="Savepoints taken during the stream (native).")] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="Pairs of phases, with savepoints and without.")] = None,
    keys: Annotated[str | None, typer.Option(help="Numbers of keys of states that are written and restored.")] = None,
    value_bytes: Annotated[int | None, typer.Option(min=1, help="Length of their values.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="How often each state is written and restored.")] = None,
    backend: Annotated[str, typer.Option(help="heap or rocksdb.")] = "heap",
    engines: Annotated[
        str, typer.Option(help="Which engines; Flink needs `make flink`, and is skipped without it.")
    ] = ",".join(OPERATION_ENGINES),
    work: Work = None,
) -> None:
    """Savepoints during a stream; canonical savepoints, restores, rescales, checkpoints, next to PySpark and Flink."""
    chosen = names(parts, PARTS)
    [store] = names(backend, ("heap", "rocksdb"))
    given: dict[str, Any] = {
        "stream_keys": None if stream_keys is None else [count(number) for number in stream_keys.split(",")],
        "epoch_records": None if epoch is None else count(epoch),
        "savepoints": savepoints,
        "pairs": pairs,
        "keys": None if keys is None else [count(number) for number in keys.split(",")],
        "value_bytes": value_bytes,
        "rounds": rounds,
    }
    sizes = operations.FULL if (check if full is None else full) else operations.SMALL
    sizes = sizes._replace(**{name: value for name, value in given.items() if value is not None})
    with folder_at(work) as folder:
        report = operations.measure(folder, tell, sizes, chosen, store, names(engines, OPERATION_ENGINES))
        finish(report, json, check, operation_report.show)


@app.command("dagster_ticks")
def run_dagster_ticks(
    json: Json = None,
    check: Check = False,
    checkpoints: Annotated[str | None, typer.Option(help="Number of checkpoints; 10k with --check, else 200.")] = None,
    states: Annotated[int, typer.Option(min=1, help="Number of states of the job.")] = 6,
    keys: Annotated[str, typer.Option(help="Keys of each state.")] = "2k",
    events: Annotated[int, typer.Option(min=0, help="Events of the previous checkpoint in Dagster.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="How often each tick is measured.")] = 5,
    work: Work = None,
) -> None:
    """Ticks of Dagster's reporter over a long history, or a long backlog, and the load of its code location."""
    number = count(checkpoints or ("10k" if check else "200"))
    with folder_at(work) as folder:
        report = dagster_ticks.measure(folder, tell, number, states, count(keys), events, rounds)
        finish(report, json, check, dagster_ticks.show)


@app.command("dagster_partitions")
def run_dagster_partitions(
    json: Json = None,
    check: Check = False,
    savepoints: Annotated[str, typer.Option(help="Numbers of savepoints.")] = ",".join(
        map(str, dagster_partitions.SIZES)
    ),
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 3,
    work: Work = None,
) -> None:
    """What as many savepoints cost Dagster as `restored_state` may have partitions."""
    with folder_at(work) as folder:
        report = dagster_partitions.measure(folder, tell, [count(n) for n in savepoints.split(",")], rounds)
    finish(report, json, check, dagster_partitions.show)


@app.command("scale")
def run_scale(
    json: Json = None,
    check: Check = False,
    subtasks: Annotated[str | None, typer.Option(help="Numbers of subtasks; 2,16,128,1000 with --check.")] = None,
    work: Work = None,
) -> None:
    """The driver of a job with up to a thousand subtasks, without Spark: epochs, checkpoints, starts."""
    sizes = scale.FULL if check or subtasks else scale.SMALL
    if subtasks is not None:
        sizes = {count(number): sizes[count(number)] for number in subtasks.split(",")}
    with folder_at(work) as folder:
        finish(scale.measure(folder, tell, sizes), json, check, scale.show)


@app.command("requests")
def run_requests(
    json: Json = None,
    check: Check = False,
    subtasks: Annotated[str | None, typer.Option(help="Numbers of subtasks; 2,16,128 with --check.")] = None,
    work: Work = None,
) -> None:
    """The requests of a job with its root and its table in a bucket, and what they cost."""
    sizes = requests.FULL if check or subtasks else requests.SMALL
    if subtasks is not None:
        sizes = {count(number): sizes[count(number)] for number in subtasks.split(",")}
    with folder_at(work) as folder:
        finish(requests.measure(folder, tell, sizes), json, check, requests.show)


@app.command("postgresql")
def run_postgresql(
    json: Json = None,
    check: Check = False,
    rows: Annotated[str, typer.Option(help="Rows of an epoch.")] = str(postgresql.ROWS),
    rounds: Annotated[int, typer.Option(min=1, help="How many epochs each way writes.")] = 3,
    work: Work = None,
) -> None:
    """An epoch into a table of PostgreSQL, next to the bare bulk load of the same driver."""
    with folder_at(work) as folder:
        report = postgresql.measure(folder, tell, count(rows), rounds)
    finish(report, json, check, loads.show)


@app.command("kafka")
def run_kafka(
    json: Json = None,
    check: Check = False,
    rows: Annotated[str, typer.Option(help="Records of an epoch.")] = str(kafka.ROWS),
    rounds: Annotated[int, typer.Option(min=1, help="How many epochs each way sends.")] = 3,
    work: Work = None,
) -> None:
    """An epoch into a topic of Kafka, next to a loop of the same client."""
    with folder_at(work) as folder:
        report = kafka.measure(folder, tell, count(rows), rounds)
    finish(report, json, check, loads.show)


@app.command("all")
def run_all(
    out: Annotated[Path, typer.Option(help="Folder of report.md, report.json and pictures.")] = Path(
        "build/benchmarks"
    ),
    small: Annotated[bool, typer.Option("--small", help="Small sizes that show in minutes whether it works.")] = False,
    parts: Annotated[str, typer.Option(help="Which workloads; all by default.")] = "",
    go_on: Annotated[bool, typer.Option("--continue", help="Keep results that are in the folder.")] = False,
    check: Check = False,
    work: Work = None,
) -> None:
    """Every workload, next to every installed peer, with tables, JSON and pictures; takes hours.

    With --check it also fails if a threshold was not measured, for example without Flink; not with --small. --continue
    resumes a run that was stopped, or a run of other --parts. Each section says when and by which code it was measured.
    """
    known = everything.parts(small=small)
    requested = names(parts or ",".join(known), tuple(known))
    try:
        stored = {name for name, part in known.items() if go_on and everything.kept_of(name, part, out) is not None}
    except everything.ForeignFileError as error:
        raise typer.BadParameter(str(error), param_hint="--continue") from error
    chosen = {name: part for name, part in known.items() if name in requested or name in stored}
    if not FLINK_PYTHON.exists():
        tell("Flink is not installed, so no threshold that needs it is measured: `make flink` installs it")
    with folder_at(work) as folder:
        measured = everything.measure(chosen, folder, out, tell, go_on=go_on)
    console = Console(width=WIDTH)
    verdicts = thresholds.judge(thresholds.load(), measured.rows) if check else []
    if check:
        everything.add_verdicts(verdicts, out)
    show_verdicts(verdicts, console)
    show_unmeasured(verdicts, console)
    console.print(f"The report is {out / 'report.md'}.", highlight=False, soft_wrap=True)
    if measured.failures or (check and not everything.reached(verdicts, small=small)):
        raise typer.Exit(1)


def finish(
    report: Measured, json: Path | None, check: bool, show: Callable[[Sequence[Any], Console], None] = show
) -> None:
    """Shows and writes a report; fails if an engine failed or a threshold is not reached."""
    console = Console(width=WIDTH)
    show(report.results, console)
    judged(console, report.results, report.failures, json, check)


def judged(
    console: Console,
    results: Sequence[Row],
    failures: Sequence[str],
    json: Path | None,
    check: bool,
) -> None:
    """Writes the rows; fails if an engine failed or a threshold is not reached."""
    if json is not None:
        write_json(results, json)
    verdicts = thresholds.judge(thresholds.load(), results) if check else []
    show_verdicts(verdicts, console)
    if failures or (check and not thresholds.passed(verdicts)):
        raise typer.Exit(1)


def tell(line: str) -> None:
    """Prints a line of progress to the error output."""
    typer.echo(line, err=True)


@contextmanager
def folder_at(work: Path | None) -> Iterator[Path]:
    """Creates a new folder below `work`, or below the system's temporary folder, and removes it afterwards."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="lakestate-benchmark-", dir=work)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
