"""What a caller asks of a savepoint: one record, whether it comes from Python, REST, the command line or Dagster."""

from typing import Literal, NamedTuple, TypedDict

SavepointKind = Literal["native", "canonical"]


class SavepointRequest(NamedTuple):
    """Which savepoint to take.

    Attributes:
        kind: `native` pins the epoch's files, whatever their size; `canonical` writes the state out, as tables that can
            be moved and copied.
        directory: A path or address below which it gets a folder named by its id; by default it goes below the job's
            root. Of a native savepoint only a `_metadata` file is put there, which names the job and the root.
        label: A short name for people.
        note: Anything worth knowing.
        epoch: A sealed epoch of the current lineage; the newest one by default.
        trigger: Who requested it: a user, a policy, a schedule or sensor. If it is empty, the caller sets its own name.
    """

    kind: SavepointKind = "native"
    directory: str | None = None
    label: str = ""
    note: str = ""
    epoch: int | None = None
    trigger: str = ""

    def taken_by(self, trigger: str) -> "SavepointRequest":
        """Returns the request with a name of who requested it, unless it has one."""
        return self if self.trigger else self._replace(trigger=trigger)


class SavepointOptions(TypedDict, total=False):
    """The fields of a `SavepointRequest` but its kind, as keyword arguments."""

    directory: str | None
    label: str
    note: str
    epoch: int | None
    trigger: str


__all__ = ["SavepointKind", "SavepointOptions", "SavepointRequest"]
