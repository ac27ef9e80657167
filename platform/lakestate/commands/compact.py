"""`lakestate compact`: folds a job's state into one layer, and clears away what no manifest names."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from lakestate.commands.common import (
    AsJson,
    Job,
    Root,
    add_row,
    make_console,
    make_table,
    named_errors,
    plain,
    print_json,
    waiting,
)
from lakestate.commands.formats import format_bytes, format_count, format_duration
from lakestate.commands.removals import (
    DryRun,
    Files,
    Grace,
    Wait,
    apply_plan,
    facts_of,
    print_removals,
    print_report,
)
from lakestate.durations import duration_of
from state_engine.clock import SystemClock
from state_engine.errors import LakestateError

if TYPE_CHECKING:
    from state_engine.checkpoint.compaction import CompactionPlan
    from state_engine.checkpoint.table import CheckpointRow

QUIET_MS = 60_000
"""A job that sealed its newest epoch so short a time ago may be running where we cannot see it."""


class JobMayRunError(LakestateError):
    """Nobody knows whether a job runs, and what was asked for would end it."""


def compact(
    job: Job,
    root: Root,
    stopped: Annotated[
        bool, typer.Option("--stopped", help="The job does not run, although its newest epoch is a minute old or less.")
    ] = False,
    grace: Grace = "10min",
    wait: Wait = False,
    dry_run: DryRun = False,
    files: Files = False,
    as_json: AsJson = False,
) -> None:
    """Fold a job's state into one layer, and delete files that no manifest names. No epoch and no checkpoint goes.

    A job that a process of this machine runs is asked to do it, with a FULL checkpoint; one that does not run is folded
    here. A job that runs elsewhere would be ended by that, so a young newest epoch is refused.
    """
    with named_errors():
        from state_engine.checkpoint.compaction import plan_compaction
        from state_engine.checkpoint.retention import RetentionPolicy, plan_retention

        console = make_console()
        plan = plan_compaction(root, job)
        if not as_json:
            _print_plan(console, plan)
        checkpoint = None if dry_run or not plan.needed else _fold(root, job, plan, stopped=stopped)
        if checkpoint is not None and not as_json:
            size = f"{format_bytes(checkpoint.state_bytes)}, {format_count(checkpoint.log_rows)} rows"
            console.print(Text(f"checkpoint {checkpoint.id} of epoch {checkpoint.epoch}: {size}"))
        policy = RetentionPolicy(checkpoints=None, strays=True, grace_ms=duration_of(grace))
        strays = plan_retention(root, job, policy, SystemClock().now_ms())
        if not as_json:
            print_removals(console, strays, files=files)
        done = None if dry_run else apply_plan(strays, wait=wait, title=f"clear {job}")
        if as_json:
            shown = plain(checkpoint) if checkpoint is not None else None
            print_json({"plan": plain(plan), "checkpoint": shown, "strays": facts_of(strays, done)})
        elif done is not None:
            print_report(console, done, policy.grace_ms)
        else:
            total = f"{format_count(len(strays.removals))} files, {format_bytes(strays.bytes)}"
            console.print(Text(f"would {'fold the state, and ' if plan.needed else ''}remove {total}"))


def _fold(root: str, job: str, plan: "CompactionPlan", *, stopped: bool) -> "CheckpointRow | None":
    from lakestate.control import find_endpoint
    from lakestate.rest.bodies import CheckpointTrigger
    from lakestate.running_job import RunningJob
    from state_engine.checkpoint.compaction import compact as fold
    from state_engine.inspect import open_job

    if find_endpoint(root, job) is not None:
        with waiting(f"{job} folds its state"):
            RunningJob(root, job).operate("checkpoints", body=CheckpointTrigger(checkpoint_type="FULL"))
        completed = [row for row in open_job(root, job).checkpoints() if row.base is not None]
        return max(completed, key=lambda row: row.checkpoint_id or 0, default=None)
    age = SystemClock().now_ms() - plan.sealed_at
    if age < QUIET_MS and not stopped:
        raise JobMayRunError(
            f"Job {job!r} sealed its newest epoch {format_duration(max(0, age))} ago; no process of this machine runs "
            "it, but one elsewhere might, and would be ended.",
            action="Ask that process for a FULL checkpoint (`POST /jobs/<id>/checkpoints`). If the job is stopped, say "
            "--stopped, or wait a minute.",
        )
    with waiting(f"fold the state of {job}"):
        return fold(root, job)


def _print_plan(console: Console, plan: "CompactionPlan") -> None:
    changed = f"{plan.epochs} epochs with {format_bytes(plan.bytes)} of changes since the newest checkpoint"
    console.print(Text(f"{plan.job} stands at epoch {plan.generation}/{plan.epoch}; {changed}"))
    figures = ("layers", "files", "size", "log rows", "rows")
    table = make_table("state", *figures, right=figures)
    for state in plan.states:
        add_row(
            table,
            f"{state.uid}/{state.state}",
            state.layers,
            state.files,
            format_bytes(state.bytes),
            format_count(state.log_rows),
            format_count(state.rows),
        )
    if plan.states:
        console.print(table)
    if not plan.needed:
        console.print(Text("nothing to fold"))


__all__ = ["JobMayRunError", "compact"]
