"""Runs asynchronous operations, and remembers their results."""

import threading
import uuid
from collections.abc import Callable

from lakestate.rest.triggers import Key, Kind, Outcome, TriggerRegistry


class Operations:
    """Begins operations under trigger ids and runs each on a thread of its own; the registry limits their number.

    Args:
        now_ms: Returns the current time.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.registry = TriggerRegistry(lambda: uuid.uuid4().hex, now_ms)

    def begin(self, kind: Kind, job_id: str, trigger_id: str | None, run: Callable[[], object]) -> Key:
        """Starts an operation, or returns the key of the one that was started under this trigger id.

        Args:
            kind: Of the operation.
            job_id: Of the job, or empty.
            trigger_id: The caller's own id.
            run: What to do.

        Raises:
            TooManyOperationsError: Too many are under way.
        """
        key, is_new = self.registry.begin(kind, job_id, trigger_id)
        if is_new:
            name = f"rest-{kind}-{key.trigger_id[:8]}"
            threading.Thread(target=self._run, args=(key, run), name=name, daemon=True).start()
        return key

    def _run(self, key: Key, run: Callable[[], object]) -> None:
        try:
            outcome = Outcome(result=run())
        except BaseException as error:  # of any kind: a client asks for the result
            outcome = Outcome(error=error)
        self.registry.end(key, outcome)


__all__ = ["Operations"]
