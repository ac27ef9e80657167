"""Base of all harnesses for operators: lifecycle, time, checkpoints and results."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from state_engine.api.output_tag import OutputTag
from state_engine.api.state_backend import StateBackend
from state_engine.api.timers import TimeDomain
from state_engine.backends.time import MAX_WATERMARK
from state_engine.errors import JobDefinitionError
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.spec import OperatorSpec
from state_engine.testing.operator_instances import OperatorInstances
from state_engine.testing.operator_records import CollectedOutput, RecordRouter
from state_engine.testing.operator_state import OperatorSubtaskState


class OperatorTestHarness:
    """Runs one operator with all its subtasks, or with one of them, in the process of the test.

    Args:
        spec: The operator.
        parallelism: Its parallelism.
        subtasks: The subtasks to run.
        router: Routes the records to them.
        state_backend: Where they keep keyed state.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        parallelism: int,
        subtasks: Sequence[int],
        router: RecordRouter,
        state_backend: StateBackend | str = "heap",
    ) -> None:
        self._instances = OperatorInstances(spec, parallelism, subtasks, state_backend)
        self._router = router
        self._output = CollectedOutput(spec)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Life ---------------------------------------------------------------------------------------------------------

    def initialize_state(self, snapshot: OperatorSubtaskState) -> None:
        """Starts from a snapshot, which may have any parallelism; each subtask takes its own key groups.

        Raises:
            RestoreError: A job would refuse to start: a state, the key or the max parallelism changed.
            RuntimeError: The operator is open, or has processed something.
        """
        self._instances.restore(snapshot)

    def open(self) -> None:
        """Opens all instances, unless they are open. Without this call the first record opens them.

        Raises:
            UserFunctionError: The function's `open` raised.
        """
        self._instances.open()

    def close(self) -> None:
        """Closes the instances; outputs and snapshots stay. The next epoch opens new instances on the same state."""
        self._instances.close()

    @property
    def functions(self) -> tuple[Any, ...]:
        """The open copies of the function, one per subtask."""
        return self._instances.functions

    # Time ---------------------------------------------------------------------------------------------------------

    def set_processing_time(self, ms: int) -> None:
        """Sets the processing time, and runs an epoch without records: due timers fire.

        It is 0 at first. After a restore it continues from that of the snapshot.

        Raises:
            ValueError: It would go back; the processing time of a job never does.
            UserFunctionError, OutputTypeError, StateTypeChangedError: As `process_elements` raises them.
        """
        now = self._instances.processing_time
        if ms < now:
            raise ValueError(f"Processing time is {now} and cannot go back to {ms}.")
        self._instances.processing_time = ms
        self._run()

    def _move_watermark(self, ms: int) -> None:
        """Moves the operator's watermark and runs an epoch without records.

        Raises:
            ValueError: It would go back.
        """
        now = self._instances.watermark
        if ms < now:
            raise ValueError(f"The watermark is {now} and cannot go back to {ms}.")
        self._instances.watermark = ms
        self._run()

    def end_input(self) -> None:
        """Ends the input, in an epoch without records: all event-time timers fire, then `finish` is called.

        Raises:
            UserFunctionError, OutputTypeError, StateTypeChangedError: As `process_elements` raises them.
        """
        self._instances.watermark = MAX_WATERMARK
        self._run(finish=True)

    # Checkpoints --------------------------------------------------------------------------------------------------

    def notify_of_completed_checkpoint(self, checkpoint_id: int) -> None:
        """Tells the functions that a checkpoint completed, in an epoch without records.

        Later epochs are covered by a higher id, as in a job.

        Raises:
            UserFunctionError: The function raised.
        """
        self._run(completed=[checkpoint_id])

    def notify_of_aborted_checkpoint(self, checkpoint_id: int) -> None:
        """Tells the functions that a checkpoint was aborted; otherwise as `notify_of_completed_checkpoint`."""
        self._run(aborted=[checkpoint_id])

    def _run(self, records: Iterable[Any] = (), timestamps: Sequence[int | None] | None = None, **epoch: Any) -> None:
        """Runs an epoch."""
        for emitted in self._instances.run(self._router.route(records, timestamps), **epoch):
            self._output.add(emitted)

    # Results ------------------------------------------------------------------------------------------------------

    def extract_output_values(self) -> list[Any]:
        """Returns the rows of the main output so far: tuples, or dataclasses if `output_type` is one.

        With several subtasks the rows of an epoch come subtask by subtask.
        """
        return self._output.values(MAIN)

    def get_output(self) -> pa.Table:
        """Returns the main output so far as the columns that a sink or the next operator gets."""
        return self._output.table(MAIN)

    def get_side_output(self, tag: OutputTag) -> list[Any]:
        """Returns the rows of a side output so far, as `extract_output_values` does.

        Raises:
            KeyError: The tag is not among `side_outputs`.
        """
        return self._output.values(tag.tag_id)

    def clear_output(self) -> None:
        """Discards all outputs so far."""
        self._output.clear()

    def snapshot(self) -> OperatorSubtaskState:
        """Returns the state as of the last sealed epoch, of the subtasks that this harness runs."""
        return self._instances.snapshot()

    def num_keyed_state_entries(self) -> int:
        """Returns the number of keys with state, summed over all states."""
        return sum(map(len, self.snapshot().states().values()))

    def num_event_time_timers(self) -> int:
        """Returns the number of registered event-time timers."""
        return self._timers(TimeDomain.EVENT_TIME)

    def num_processing_time_timers(self) -> int:
        """Returns the number of registered processing-time timers."""
        return self._timers(TimeDomain.PROCESSING_TIME)

    def _timers(self, domain: TimeDomain) -> int:
        return sum(map(len, self.snapshot().timers(domain).values()))


def subtasks_of(only: int | None, parallelism: int) -> range:
    """Returns the subtasks that a harness runs: all of them, or only `only`.

    Raises:
        JobDefinitionError: This subtask does not exist.
    """
    if only is None:
        return range(parallelism)
    if not 0 <= only < parallelism:
        raise JobDefinitionError(
            f"There is no subtask {only} at parallelism {parallelism}.", action=f"Give 0 to {parallelism - 1}."
        )
    return range(only, only + 1)


__all__ = ["OperatorTestHarness", "subtasks_of"]
