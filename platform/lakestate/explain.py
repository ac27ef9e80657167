"""`lakestate explain`: the operator graph of a registered job, without starting the job or Spark."""

import sys
from contextlib import redirect_stdout
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.text import Text
from rich.tree import Tree

from lakestate.commands.common import AsJson, checked_root, make_console, named_errors
from lakestate.registry import ANY_ROOT, build_dry, load_job

if TYPE_CHECKING:
    from state_engine.spark.explain import InputPlan, JobExplanation, OperatorExplanation


def explain(
    job: Annotated[str, typer.Argument(help="Name of a registered job.")],
    root: Annotated[
        str,
        typer.Option(callback=checked_root, help="The state root to build the job for. Nothing is written."),
    ] = ANY_ROOT,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="An option of the job, as name=value. Repeatable.")
    ] = None,
    as_json: AsJson = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start a local Spark session, for jobs that transform their DataFrames.")
    ] = False,
) -> None:
    """Show the operators, uids, states, exchanges and sinks of a job."""
    with named_errors():
        plan = _explained(job, root, _options(option or []), with_spark=spark)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(plan)).decode())
        return
    make_console().print(_tree(plan))


def _explained(job: str, root: str, options: dict[str, str], *, with_spark: bool) -> "JobExplanation":
    # Imported here, so that the command line starts quickly.
    from state_engine.spark.explain import explain_job

    if not with_spark:
        return explain_job(build_dry(job, root, options))
    factory = load_job(job)
    from state_engine.spark import local_session
    from state_engine.spark.session.connectors import connectors_of

    session = local_session(f"explain-{job}", connectors=connectors_of(factory))
    try:
        with redirect_stdout(sys.stderr):
            built = factory(session, root, options)
        return explain_job(built)
    finally:
        session.stop()


def _options(given: list[str]) -> dict[str, str]:
    split = [one.partition("=") for one in given]
    wrong = next((name for name, equals, _ in split if not equals or not name), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r} is not name=value", param_hint="--option")
    return {name: value for name, _, value in split}


def _tree(plan: "JobExplanation") -> Tree:
    tree = Tree(Text(f"job {plan.job}", style="bold"))
    tree.add(Text(f"parallelism {plan.parallelism}, max parallelism {plan.max_parallelism}, root {plan.root}"))
    feeding = {way.upstream for operator in plan.operators for way in operator.inputs if not way.is_source}
    shown: set[str] = set()
    for operator in plan.operators:
        if operator.uid not in feeding:
            _add_operator(tree, plan, operator, shown)
    return tree


def _add_operator(parent: Tree, plan: "JobExplanation", operator: "OperatorExplanation", shown: set[str]) -> None:
    """Adds an operator, and below it its inputs: the tree goes from a last operator to the sources.

    An operator that several others read is described where it appears first; `shown` has the uids described so far.
    """
    head = Text(f"{operator.uid}", style="bold cyan")
    if operator.uid in shown:
        parent.add(head.append("  as above", style="default"))
        return
    shown.add(operator.uid)
    head.append(f"  {operator.function}, stage {operator.stage}, {operator.parallelism} subtasks", style="default")
    if len(operator.chain) > 1:
        head.append(f", one task of {' → '.join(operator.chain)}", style="default")
    if operator.generated_uid:
        head.append("  generated uid: give one, or the state is lost to a job of another shape", style="yellow")
    branch = parent.add(head)
    for state in operator.states:
        kind = state.type if state.shape == "raw" else f"{state.shape} of {state.type}"
        ttl = f", for {timedelta(milliseconds=state.ttl_ms)}" if state.ttl_ms is not None else ""
        branch.add(Text(f"state {state.name}: {kind}{ttl}"))
    for sink in operator.sinks:
        output = "" if sink.output == "main" else f" of side output {sink.output}"
        branch.add(Text(f"sink {sink.uid}{output}: {sink.kind} {sink.table}".rstrip()))
    for tag in sorted(set(operator.side_outputs) - _read_outputs(plan, operator)):
        branch.add(Text(f"side output {tag}, without a sink"))
    for way in operator.inputs:
        _add_input(branch, plan, way, shown, several=len({one.input for one in operator.inputs}) > 1)


def _read_outputs(plan: "JobExplanation", operator: "OperatorExplanation") -> set[str]:
    """Returns the outputs of an operator that sinks or other operators read."""
    ways = [way for other in plan.operators for way in other.inputs if not way.is_source]
    return {sink.output for sink in operator.sinks} | {way.output for way in ways if way.upstream == operator.uid}


def _add_input(branch: Tree, plan: "JobExplanation", way: "InputPlan", shown: set[str], *, several: bool) -> None:
    by_uid = {operator.uid: operator for operator in plan.operators}
    words = [f"input {way.input}" if several else "input", way.ship]
    words += [f"side output {way.output}"] if way.output != "main" else []
    words += ["by an exchange that several operators read"] if way.shared else []
    words += ["as objects"] if way.ship == "FORWARD" and by_uid[way.upstream].object_reuse else []
    words += [f"ordered by {', '.join(way.order_by)}"] if way.order_by else []
    words += [*way.steps, way.event_time] if way.event_time else way.steps
    arm = branch.add(Text(f"{words[0]}: {', '.join(words[1:])}"))
    if not way.is_source:
        _add_operator(arm, plan, by_uid[way.upstream], shown)
        return
    source = next(s for s in plan.sources if s.name == way.upstream)
    bounded = ", bounded" if source.bounded else ""
    time = f", event time {source.event_time}" if source.event_time else ""
    arm.add(Text(f"source {source.name}: {source.kind}{bounded}{time}"))


__all__ = ["explain"]
