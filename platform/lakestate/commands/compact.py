"""`lakestate compact`: folds a job's state into one layer, and deletes files that no manifest names."""

from typing import TYPE_CHECKING

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
from lakestate.commands.formats import format_bytes, format_count, number_of
from lakestate.commands.options import Stopped
from lakestate.commands.removals import (
    DryRun,
    Files,
    Grace,
    Wait,
    apply_plan,
    facts_of,
    print_leftovers,
    print_removals,
    print_report,
)
from lakestate.durations import duration_of
from state_engine.clock import SystemClock

if TYPE_CHECKING:
    from state_engine.checkpoint.compaction import CompactionPlan
    from state_engine.checkpoint.table import CheckpointRow


def compact(
    job: Job,
    root: Root,
    stopped: Stopped = False,
    grace: Grace = "10min",
    wait: Wait = False,
    dry_run: DryRun = False,
    files: Files = False,
    as_json: AsJson = False,
) -> None:
    """Take a FULL checkpoint, and delete files that no manifest references. No epoch and no checkpoint is deleted.

    If a process on this machine runs the job, it takes the checkpoint; otherwise this command does. That would end a
    process on another machine, so a job with a recent epoch, or in a bucket, is refused unless --stopped confirms it.
    """
    with named_errors():
        from state_engine.checkpoint.compaction import plan_compaction
        from state_engine.checkpoint.retention.policy import RetentionPolicy
        from state_engine.checkpoint.retention.steps import plan_retention

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
            print_leftovers(console, strays)
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
    from lakestate.folding import fold_state
    from lakestate.running_job import RunningJob

    running = RunningJob(root, job) if find_endpoint(root, job) is not None else None
    with waiting(f"{job} folds its state" if running is not None else f"fold the state of {job}"):
        return fold_state(root, plan, SystemClock().now_ms(), running=running, stopped=stopped)


def _print_plan(console: Console, plan: "CompactionPlan") -> None:
    changed = (
        f"{number_of(plan.epochs, 'epoch')} with {format_bytes(plan.bytes)} of changes since the newest checkpoint"
    )
    console.print(Text(f"{plan.job} is at epoch {plan.generation}/{plan.epoch}; {changed}"))
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


__all__ = ["compact"]
