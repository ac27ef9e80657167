"""`lakestate savepoint`: takes one."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakestate.commands.common import AsJson, Job, Root, make_console, named_errors, print_json, waiting
from lakestate.commands.formats import format_bytes, format_count
from lakestate.commands.savepoints import facts_of
from state_engine.log.savepoints import CanonicalSavepoint

if TYPE_CHECKING:
    from state_engine.log.savepoints import Savepoint
    from state_engine.savepoint import SavepointKind


def savepoint(
    job: Job,
    root: Root,
    label: Annotated[str, typer.Option(help="A short name for people.")] = "",
    note: Annotated[str, typer.Option(help="Anything worth knowing.")] = "",
    epoch: Annotated[
        int | None, typer.Option(min=1, help="A sealed epoch of the current lineage; the newest one by default.")
    ] = None,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="Write the state out, as tables that can be moved and copied.")
    ] = False,
    directory: Annotated[
        str | None,
        typer.Option(help="A path or address below which it goes; of a native one only a note on where it lies."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a running, stopped or dead job: native, which copies nothing, or canonical, written out."""
    with named_errors():
        from state_engine.savepoint import trigger_savepoint

        kind: SavepointKind = "canonical" if canonical else "native"
        with waiting(f"take a {kind} savepoint of {job}"):
            taken = trigger_savepoint(root, job, kind=kind, directory=directory, epoch=epoch, label=label, note=note)
        if as_json:
            print_json(facts_of(taken))
            return
        size = f"{format_count(file_count(taken))} files, {format_bytes(taken.bytes)}"
        where = f", in {taken.directory}" if isinstance(taken, CanonicalSavepoint) and taken.directory else ""
        place = f"epoch {taken.generation}/{taken.epoch}"
        make_console().print(Text(f"{taken.savepoint_id}  {taken.kind}, {place}, {size}{where}"))


def file_count(taken: "Savepoint") -> int:
    """Returns how many files a savepoint holds."""
    if isinstance(taken, CanonicalSavepoint):
        return sum(len(table.files) for table in taken.tables)
    return len(taken.handles)


__all__ = ["savepoint"]
