"""`lakestate retain`: deletes what no policy, savepoint, restore, reader or fork needs."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from lakestate.commands.common import AsJson, Job, Root, make_console, named_errors, print_json
from lakestate.commands.formats import format_bytes, format_count
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
from state_engine.errors import JobDefinitionError

if TYPE_CHECKING:
    from state_engine.checkpoint.retention.policy import Keep
    from state_engine.checkpoint.retention.steps import RetentionPlan

SHOWN = 10

Number = int | None


def retain(
    job: Job,
    root: Root,
    last: Annotated[Number, typer.Option("--last", min=1, help="Keep this number of newest checkpoints.")] = None,
    age: Annotated[
        str | None, typer.Option("--for", help="Keep checkpoints younger than this, such as 12h or 7d.")
    ] = None,
    hourly: Annotated[
        Number, typer.Option(min=0, help="Keep the newest of each of the last N hours that have one.")
    ] = None,
    daily: Annotated[
        Number, typer.Option(min=0, help="Keep the newest of each of the last N days that have one.")
    ] = None,
    weekly: Annotated[
        Number, typer.Option(min=0, help="Keep the newest of each of the last N weeks that have one.")
    ] = None,
    savepoints_last: Annotated[
        Number, typer.Option(min=0, help="Same as --last, for savepoints that a policy took.")
    ] = None,
    savepoints_for: Annotated[str | None, typer.Option(help="Same as --for, for these savepoints.")] = None,
    savepoints_hourly: Annotated[Number, typer.Option(min=0, help="Same as --hourly, for these savepoints.")] = None,
    savepoints_daily: Annotated[Number, typer.Option(min=0, help="Same as --daily, for these savepoints.")] = None,
    savepoints_weekly: Annotated[Number, typer.Option(min=0, help="Same as --weekly, for these savepoints.")] = None,
    keep_label: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-label",
            metavar="PATTERN",
            help="Keep every savepoint whose label matches, such as before-*. Repeatable.",
            show_default=False,
        ),
    ] = None,
    strays: Annotated[
        bool, typer.Option("--strays", help="Also delete files of kept epochs that no manifest references.")
    ] = False,
    grace: Grace = "10min",
    wait: Wait = False,
    dry_run: DryRun = False,
    files: Files = False,
    as_json: AsJson = False,
) -> None:
    """Apply retention: delete old epochs, checkpoints and policy savepoints. The job may be running."""
    with named_errors():
        from state_engine.checkpoint.retention.policy import RetentionPolicy
        from state_engine.checkpoint.retention.steps import plan_retention

        checkpoints = _keep(last, age, hourly, daily, weekly)
        if checkpoints is None:
            raise JobDefinitionError(
                "No option says which checkpoints to keep.", action="Give one, for instance --last 3 --daily 7."
            )
        policy = RetentionPolicy(
            checkpoints=checkpoints,
            savepoints=_keep(
                savepoints_last, savepoints_for, savepoints_hourly, savepoints_daily, savepoints_weekly, at_least=0
            ),
            pinned_labels=tuple(keep_label or ()),
            strays=strays,
            grace_ms=duration_of(grace),
        )
        plan = plan_retention(root, job, policy, SystemClock().now_ms())
        console = make_console()
        if not as_json:
            _print_plan(console, plan, files=files, would=dry_run)
        done = None if dry_run else apply_plan(plan, wait=wait, title=f"clear {job}")
        if as_json:
            print_json(facts_of(plan, done))
        elif done is not None:
            print_report(console, done, policy.grace_ms)


def _keep(
    last: Number, age: str | None, hourly: Number, daily: Number, weekly: Number, at_least: int = 1
) -> "Keep | None":
    """Returns the rules; None if none was given."""
    from state_engine.checkpoint.retention.policy import Keep

    if all(one is None for one in (last, age, hourly, daily, weekly)):
        return None
    return Keep(
        last=at_least if last is None else last,
        for_ms=0 if age is None else duration_of(age),
        hourly=hourly or 0,
        daily=daily or 0,
        weekly=weekly or 0,
    )


def _print_plan(console: Console, plan: "RetentionPlan", *, files: bool, would: bool) -> None:
    newest = list(plan.checkpoints[-SHOWN:])
    named = f"{'… ' if len(plan.checkpoints) > SHOWN else ''}{', '.join(newest)}" if newest else "none yet"
    since = f"every epoch from {plan.oldest_epoch[0]}/{plan.oldest_epoch[1]} on" if plan.oldest_epoch else "every epoch"
    console.print(Text(f"{plan.job} keeps {since}; checkpoints: {named}"))
    for savepoint in plan.savepoints:
        console.print(Text(f"savepoint {savepoint} is to be deleted"))
    for disposal in plan.disposals:
        console.print(Text(f"savepoint {disposal.savepoint_id} is to be deleted, {format_bytes(disposal.bytes)}"))
    print_leftovers(console, plan)
    print_removals(console, plan, files=files)
    if would:
        total = f"{format_count(len(plan.removals))} files, {format_bytes(plan.bytes)}"
        console.print(Text(f"would remove {total}"))


__all__ = ["retain"]
