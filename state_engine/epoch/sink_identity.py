"""Checks whether the job still has every sink that sealed output belongs to (S1, before anything is written). Pure.

A sink is identified by its uid and its table: its commits have an application id made of the uid, and the manifests
name its files under the uid. Output of a sink that is gone, or that writes elsewhere now, could neither be committed
nor rewound.
"""

from collections.abc import Callable, Sequence

from state_engine.epoch.sink_names import described, same, table_of
from state_engine.errors import SinkError, SinkRewindError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest, SinkTable


class SinkIdentity:
    """Compares the sinks of a job as it is built today with the sinks in its manifests.

    Args:
        job: Its name.
        declared: Its sinks, as the next manifests record them.
        holds: Returns whether a sink has the output of (generation, epoch), or was fenced against it; None if that is
            unknown.
    """

    def __init__(
        self, job: str, declared: Sequence[SinkTable], holds: Callable[[SinkTable, int, int], bool | None]
    ) -> None:
        self._job = job
        self._today = {sink.uid: sink for sink in declared}
        self._holds = holds

    @property
    def declared(self) -> tuple[SinkTable, ...]:
        """The sinks as the next manifests record them."""
        return tuple(self._today.values())

    def is_current(self, uid: str, manifest: Manifest) -> bool:
        """Whether the job has the very sink that an epoch's output for this uid belongs to.

        Older releases did not record the table; then only the uid is compared.
        """
        before = table_of(manifest, uid)
        return uid in self._today and (before is None or same(before, self._today[uid]))

    def check_owed(self, sealed: StoredManifest) -> None:
        """Checks the sinks that may still be owed what an epoch staged.

        Raises:
            SinkError: One is gone or writes elsewhere, and it does not have the output, or that is unknown.
        """
        manifest = sealed.manifest
        for uid in self._missing_sinks(manifest):
            if self._has(table_of(manifest, uid), manifest) is not True:
                raise SinkError(
                    f"Sealed epoch {manifest.epoch} of job {self._job!r} may still owe its output to "
                    f"{self._changed(uid, manifest)}.",
                    action=f"{self._remedy(uid, manifest)}, or start with keep_output=True: what it is owed is then "
                    "left out.",
                )

    def check_moved(
        self, left: Sequence[Manifest], entered: Sequence[Manifest], target: Manifest, generation: int
    ) -> None:
        """Checks the sinks from which a restore has to remove output, or to which it has to bring output back.

        Args:
            left: Epochs that are abandoned: their output has to go.
            entered: Epochs that are entered again: their output has to come back.
            target: What is restored.
            generation: The generation that the restore begins.

        Raises:
            SinkRewindError: One is gone or writes elsewhere.
        """
        for manifest, goes in [*((m, True) for m in left), *((m, False) for m in entered)]:
            for uid in self._missing_sinks(manifest):
                sink = table_of(manifest, uid)
                if self._is_fenced(sink, generation) or (goes and self._has(sink, manifest) is False):
                    continue
                what = "would stay in it, and come again" if goes else "would not come back"
                raise SinkRewindError(
                    f"Epoch {manifest.epoch} of generation {manifest.generation} gave output to "
                    f"{self._changed(uid, manifest)}: after a restore to epoch {target.epoch} this output {what}.",
                    action=f"{self._remedy(uid, manifest)}, or restore with keep_output=True: the tables then stay "
                    "as they are.",
                )

    def _missing_sinks(self, manifest: Manifest) -> list[str]:
        """Returns the uids that have output in this epoch and do not name the same sink today."""
        outputs = (file for operator in manifest.operators.values() for ack in operator.acks for file in ack.outputs)
        return [uid for uid in dict.fromkeys(file.output for file in outputs) if not self.is_current(uid, manifest)]

    def _has(self, sink: SinkTable | None, manifest: Manifest) -> bool | None:
        """Whether a sink has the output of an epoch; None where that is unknown."""
        return self._holds(sink, manifest.generation, manifest.epoch) if sink is not None else None

    def _is_fenced(self, sink: SinkTable | None, generation: int) -> bool:
        """Whether an earlier start moved a table to the new generation, and died before it moved the next table."""
        return sink is not None and self._holds(sink, generation, 0) is True

    def _changed(self, uid: str, manifest: Manifest) -> str:
        """Describes, for messages, what has become of a sink."""
        sink, today = table_of(manifest, uid), self._today.get(uid)
        before = f"sink {uid!r}" + (f", {described(sink)}" if sink is not None else "")
        return (
            f"{before}, which the job no longer has" if today is None else f"{before}, which is now {described(today)}"
        )

    def _remedy(self, uid: str, manifest: Manifest) -> str:
        sink = table_of(manifest, uid)
        for other in self._today.values():
            if sink is not None and sink.table and (other.kind, other.table) == (sink.kind, sink.table):
                return f"Give sink {other.uid!r}, which writes that table now, its name back: sink_to(..., uid={uid!r})"
        where = f" to {described(sink)}" if sink is not None else ""
        return f"Bring the sink back: sink_to(..., uid={uid!r}){where}"


__all__ = ["SinkIdentity"]
