"""`lakestate status`: the state of one job at its newest epoch."""

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
    print_facts,
    print_json,
    print_title,
)
from lakestate.commands.formats import format_bytes, format_count, format_duration, format_time, number_of
from lakestate.commands.options import WithoutCode
from lakestate.job_code import operators_of_code
from state_engine.causes import cause_line, sentence
from state_engine.clock import SystemClock
from state_engine.errors import CorruptionError

if TYPE_CHECKING:
    from lakestate.rest.job_bodies import SourceLag
    from lakestate.running_job import ProcessState
    from lakestate.supervision import Wanted
    from state_engine.inspect import JobStatus, OperatorStatus
    from state_engine.savepoint.fitness import Fitness


def status(job: Job, root: Root, without_code: WithoutCode = False, as_json: AsJson = False) -> None:
    """Show a job at its newest epoch: operators, states, checkpoint, lag, and whether its code can resume from it."""
    with named_errors():
        from lakestate.running_job import sources_of, state_of
        from lakestate.supervision import failure_of, wanted_of
        from state_engine.inspect import open_job, status_of

        newest = status_of(open_job(root, job))
        process, wanted, failure = state_of(root, job), wanted_of(root, job), failure_of(root, job)
        sources = sources_of(root, job)
        code = None if without_code else _code(job, root)
        if as_json:
            facts = {"process": plain(process), "wanted": plain(wanted), "failure": failure, "code": plain(code)}
            print_json(plain(newest) | facts | {"sources": plain(sources)})
        else:
            console = make_console()
            _print(console, newest, process, wanted, failure, SystemClock().now_ms())
            _print_sources(console, sources)
            _print_code(console, code)


def _code(job: str, root: str) -> "Fitness | str | None":
    """Checks whether the job's code can go on from the newest epoch; an error of the author's code is shown as text."""
    from state_engine.savepoint.fitness import fitness

    try:
        return fitness(root, job, "latest", operators_of_code(job, root))
    except CorruptionError:
        raise
    except Exception as error:
        return sentence(cause_line(error))


def _print(
    console: Console,
    found: "JobStatus",
    process: "ProcessState | None",
    wanted: "Wanted | None",
    failure: str | None,
    now_ms: int,
) -> None:
    console.print(Text(found.job, style="bold"))
    kind = "" if found.kind == "epoch" else f" ({found.kind})"
    print_facts(
        console,
        [
            ("at", found.url),
            ("newest epoch", f"{found.generation}/{found.epoch}{kind}, {_when(found.sealed_at, now_ms)}"),
            ("incarnation", f"{found.incarnation_number}, {found.incarnation}"),
            ("process", _process(process)),
            ("problem", process.problem if process is not None else None),
            ("wanted", _wanted(wanted)),
            ("last failure", _failure(wanted, failure, now_ms)),
            ("checkpoint", _checkpoint(found, now_ms)),
            ("savepoints", _savepoints(found)),
        ],
    )
    print_title(console, "operators")
    table = make_table(
        "operator", "subtasks", "key groups", "records", "watermark", "lag",
        right=("subtasks", "key groups", "records", "lag"),
    )  # fmt: skip
    for operator in found.operators:
        add_row(
            table,
            operator.uid,
            _subtasks(operator),
            operator.max_parallelism,
            format_count(operator.records_in),
            _watermark(operator),
            format_duration(operator.event_time_lag_ms),
        )
    console.print(table)
    if found.states:
        print_title(console, "states")
        figures = ("keys", "rows", "log rows", "size")
        table = make_table("state", *figures, right=figures)
        for state in found.states:
            counts = (format_count(state.keys), format_count(state.rows), format_count(state.log_rows))
            add_row(table, f"{state.uid}/{state.state}", *counts, format_bytes(state.bytes))
        console.print(table)
    if found.sinks:
        print_title(console, "sinks")
        table = make_table("sink", "kind", "table", fold=("table",))
        for sink in found.sinks:
            add_row(table, sink.uid, sink.kind, sink.table)
        console.print(table)


def _print_sources(console: Console, sources: "list[SourceLag]") -> None:
    known = [source for source in sources if source.lag_records is not None]
    if not known:
        return
    print_title(console, "sources")
    table = make_table("source", "records behind", "for", right=("records behind", "for"))
    for source in known:
        behind_ms = round(source.lag_seconds * 1000) if source.lag_seconds is not None else None
        add_row(table, source.name, format_count(source.lag_records), format_duration(behind_ms))
    console.print(table)


def _print_code(console: Console, code: "Fitness | str | None") -> None:
    if code is None:
        return
    lines = [f"The code of the job could not be checked: {code}"] if isinstance(code, str) else []
    if not isinstance(code, str):
        lines += [f"{reason.error}: {reason.message} {reason.action}" for reason in code.refusals]
        lines += [f"The code does not read {one}." for one in code.unread]
    if lines:
        print_title(console, "code")
    for line in lines:
        console.print(Text(line, style="yellow"))


def _process(process: "ProcessState | None") -> str:
    if process is None:
        return "none on this machine"
    pid = f"{process.pid or 'just being started'}" + ("" if process.kind == "driver" else f" ({process.kind})")
    return (
        f"{pid}, {process.url}, {process.state or 'does not answer'}" if process.url else f"{pid}, serves no requests"
    )


def _wanted(wanted: "Wanted | None") -> str | None:
    if wanted is None:
        return None
    if wanted.state == "stopped":
        return "stopped"
    restarts = number_of(wanted.restarts, "restart")
    return f"running, {restarts}" + (f"; given up: {wanted.gave_up}" if wanted.gave_up else "")


def _failure(wanted: "Wanted | None", failure: str | None, now_ms: int) -> str | None:
    """Returns the last failure; the time of one that was not recorded is not known."""
    if failure is not None and wanted is not None and wanted.attempts and wanted.attempts[-1].ended_at is None:
        return failure
    failed = next((one for one in reversed(wanted.attempts) if one.ended_at is not None), None) if wanted else None
    return f"{_when(failed.ended_at, now_ms)}: {failed.cause}" if failed and failed.ended_at else None


def _when(milliseconds: int, now_ms: int) -> str:
    return f"{format_duration(now_ms - milliseconds)} ago ({format_time(milliseconds)})"


def _checkpoint(found: "JobStatus", now_ms: int) -> str:
    row = found.checkpoint
    lag = "at the newest epoch" if found.epochs_behind == 0 else f"{number_of(found.epochs_behind, 'epoch')} behind"
    if row is None:
        return "none yet"
    return f"{row.checkpoint_id} of epoch {row.generation}/{row.epoch}, {lag}, {_when(row.completed_at, now_ms)}"


def _savepoints(found: "JobStatus") -> str:
    listed = f"{found.savepoints}, the newest {found.newest_savepoint}" if found.savepoints else "none"
    damaged = found.damaged_savepoints
    return f"{listed}; {len(damaged)} damaged: {', '.join(damaged)}" if damaged else listed


def _subtasks(operator: "OperatorStatus") -> str:
    defined = f" (defined: {operator.rescaled_from})" if operator.rescaled_from is not None else ""
    return f"{operator.parallelism}{defined}"


def _watermark(operator: "OperatorStatus") -> str:
    if operator.input_ended:
        return "end of input"
    return format_time(operator.watermark) or "none"


__all__ = ["status"]
