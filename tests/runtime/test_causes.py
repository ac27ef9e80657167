"""The failure names the cause, whatever the author's code raises, and whatever a key or record does when shown."""

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import msgspec
import pytest

from state_engine.api import KeyedProcessFunction, ProcessFunction, RuntimeContext
from state_engine.causes import HIDDEN, WorkerEndsError, cause_line, records_shown, report_of, shown, trace_of
from state_engine.errors import LakestateError
from state_engine.log.records import Failure
from state_engine.runtime.failures import OperatorFailure, engine_failure
from state_engine.runtime.operators import operator_of
from state_engine.text import plain, shorten


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class LeavingText(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not by pickle")


class Nameless:
    def __repr__(self) -> str:
        raise SystemExit("no repr")


HOSTILE: list[tuple[BaseException, str]] = [
    (ValueError("no luck"), "ValueError: no luck"),
    (SystemExit(2), "SystemExit: 2"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (GeneratorExit("closed"), "GeneratorExit: closed"),
    (MemoryError("too much"), "MemoryError: too much"),
    (StopIteration(), "StopIteration"),
    (RecursionError("deep"), "RecursionError: deep"),
    (Unpicklable("stays"), "Unpicklable: stays"),
    (Mute(), "Mute: <its str() raised ValueError>"),
    (LeavingText(), "LeavingText: <its str() raised SystemExit>"),
    (ValueError("lone \ud800 half"), "ValueError: lone \\ud800 half"),
    (ValueError("bell \x07 and nothing \x00"), "ValueError: bell \\x07 and nothing \\x00"),
]


class Raising(KeyedProcessFunction):
    """Raises an exception in one of its calls."""

    def __init__(self, call: str, error: BaseException) -> None:
        self.call, self.error = call, error

    def _called(self, name: str) -> None:
        if name == self.call:
            raise self.error

    def open(self, runtime_context: RuntimeContext) -> None:
        self._called("open")

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(5)
        self._called("process_element")
        return self._rows() if self.call == "generator" else None

    def _rows(self) -> Iterable[Any]:
        yield "a", 1
        self._called("generator")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self._called("on_timer")

    def finish(self) -> Any:
        self._called("finish")

    def close(self) -> None:
        self._called("close")


class Alone(ProcessFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def process_element(self, value: Any, ctx: Any) -> Any:
        raise self.error


def failure_of(call: Any) -> Failure:
    with pytest.raises(OperatorFailure) as failed:
        call()
    failure = failed.value.failure
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    return failure


@pytest.mark.parametrize(("error", "line"), HOSTILE, ids=lambda one: type(one).__name__)
def test_whatever_a_row_function_raises_fails_it_by_name(run: Any, error: BaseException, line: str) -> None:
    failure = failure_of(lambda: run(Raising("process_element", error)).feed(("k1", 7)))
    assert failure.message.removesuffix(".") == f"process_element() raised {line}"
    assert (failure.uid, failure.key, failure.record) == ("op", "'k1'", "Row(k='k1', n=7)")
    assert line.partition(":")[0] in failure.traceback.splitlines()[-1]


@pytest.mark.parametrize("call", ["generator", "open", "on_timer", "finish"])
def test_each_call_of_a_function_that_leaves_by_sys_exit_is_named(spec: Any, call: str) -> None:
    import pyarrow as pa

    operator = operator_of(spec(Raising(call, SystemExit("why it left"))), 0, 1)

    def live() -> None:
        operator.open()
        operator.begin(0, None, 0)
        operator.process(pa.RecordBatch.from_pydict({"k": ["k1"], "n": pa.array([7], pa.int32())}))
        operator.begin(10, None, 0)
        operator.advance()
        operator.finish()

    failure = failure_of(live)
    assert failure.message.endswith("raised SystemExit: why it left.")
    assert failure.key == ("'k1'" if call in ("generator", "on_timer") else "")


def test_a_function_without_key_is_no_exception(run: Any) -> None:
    failure = failure_of(lambda: run(Alone(SystemExit(4))).feed(("k1", 7)))
    assert (failure.message, failure.key) == ("process_element() raised SystemExit: 4.", "")


def test_a_close_that_leaves_ends_nothing_and_is_logged(spec: Any, caplog: pytest.LogCaptureFixture) -> None:
    operator = operator_of(spec(Raising("close", SystemExit("tired"))), 0, 1)
    operator.open()
    with caplog.at_level(logging.WARNING):
        operator.dispose()
    assert "close() of operator 'op', subtask 0 raised SystemExit: tired" in caplog.text


def test_the_end_of_a_worker_is_no_failure_of_the_function(run: Any) -> None:
    with pytest.raises(WorkerEndsError):
        run(Raising("process_element", WorkerEndsError(1))).feed(("k1", 7))


def test_a_row_whose_repr_raises_is_named_by_its_class(run: Any) -> None:
    class Giving(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return [Nameless()]

    failure = failure_of(lambda: run(Giving()).feed(("k1", 7)))
    assert failure.record == "<Nameless whose repr() raised SystemExit>"
    assert "<Nameless whose repr() raised SystemExit> (Nameless) is not" in failure.message


def test_a_long_message_keeps_its_class_beginning_and_end(run: Any) -> None:
    error = ValueError("begin " + "x" * 20_000 + " end")
    failure = failure_of(lambda: run(Raising("process_element", error)).feed(("k1", 7)))
    assert failure.message.startswith("process_element() raised ValueError: begin ")
    assert failure.message.endswith(" end.")
    assert len(failure.message) < 1_100
    assert failure.traceback.splitlines()[-1].startswith("ValueError: begin")
    assert len(failure.traceback) <= 4_000


def test_a_long_chain_of_causes_keeps_the_last_one() -> None:
    error: BaseException = ValueError("the first")
    for n in range(60):
        error = _raised_from(ValueError(f"number {n}"), error)
    trace = trace_of(error)
    assert trace.splitlines()[-1] == "ValueError: number 59"
    assert len(trace) <= 4_000


def _raised_from(error: BaseException, cause: BaseException) -> BaseException:
    try:
        raise error from cause
    except BaseException as raised:
        return raised


def test_keys_and_records_are_cut_at_200_characters(run: Any) -> None:
    failure = failure_of(lambda: run(Raising("process_element", ValueError("no"))).feed(("x" * 9_000, 7)))
    assert len(failure.key) == len(failure.record) == 200
    assert failure.record.endswith("n=7)")


# Without records -----------------------------------------------------------------------------------------------------


def test_without_records_no_key_and_no_record_is_shown(run: Any) -> None:
    with records_shown(False):
        failure = failure_of(lambda: run(Raising("process_element", ValueError("boom"))).feed(("secret-7", 4711)))
    assert (failure.key, failure.record) == (HIDDEN, HIDDEN)
    assert failure.message == "process_element() raised ValueError: boom."
    assert "secret-7" not in repr(failure)


@pytest.mark.parametrize(
    "error",
    [KeyError("secret-7"), ValueError("no secret-7, 4711"), ValueError("invalid literal: 'secret-7'")],
    ids=repr,
)
def test_without_records_the_message_of_an_exception_has_none_of_their_values(run: Any, error: Exception) -> None:
    with records_shown(False):
        failure = failure_of(lambda: run(Raising("process_element", error)).feed(("secret-7", 4711)))
    assert type(error).__name__ in failure.message
    assert "secret-7" not in repr(failure)
    assert "4711" not in failure.message
    assert HIDDEN in failure.message


def test_without_records_a_row_of_another_type_is_named_by_its_field(run: Any) -> None:
    class Giving(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return [(value.k, "secret-9")]

    with records_shown(False):
        failure = failure_of(lambda: run(Giving()).feed(("secret-7", 4711)))
    assert "(str) is not" in failure.message
    assert "secret" not in repr(failure)


def test_without_records_an_exception_of_unknown_values_is_shown_as_its_class() -> None:
    with records_shown(False):
        failure = engine_failure("op", 0, OSError("cannot store secret-7"))
    assert failure.message == f"The task raised OSError: {HIDDEN}."
    assert "secret" not in repr(failure)


def test_a_batch_counts_as_the_current_records() -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"name": ["ann", "bobby"], "card": [1, 4711]})
    with records_shown(False):
        assert cause_line(ValueError("bobby has 4711"), batch) == f"ValueError: {HIDDEN} has {HIDDEN}"


def test_short_values_are_hidden_as_words_alone() -> None:
    with records_shown(False):
        assert cause_line(ValueError("a bad 7 of 77"), ("a", 7)) == f"ValueError: {HIDDEN} bad {HIDDEN} of 77"


def test_records_are_shown_again_after_the_block() -> None:
    with records_shown(False):
        assert shown("ann") == HIDDEN
    assert shown("ann") == "'ann'"


# Text ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 39, 40, 200, 399])
def test_text_is_never_longer_than_its_limit(limit: int) -> None:
    assert len(shorten("ab" * 200, limit)) <= limit


def test_text_is_cut_in_its_middle() -> None:
    assert shorten("begin" + "x" * 1_000 + "end", 100).startswith("begin")
    assert shorten("begin" + "x" * 1_000 + "end", 100).endswith("end")
    assert shorten("short", 100) == "short"


def test_plain_text_keeps_lines_and_all_that_can_be_encoded() -> None:
    assert plain("é\t∑\n🙂") == "é\t∑\n🙂"
    plain("\udcff\x00\x1b[0m").encode()


def test_an_error_of_ours_can_always_be_encoded() -> None:
    error = LakestateError("The file \udcff is gone.", action="Look for \udcff.")
    assert report_of(error) == str(error) == "The file \\udcff is gone. What to do: Look for \\udcff."


def test_a_traceback_that_cannot_be_made_still_has_frames_and_class() -> None:
    class Odd(Exception):
        @property
        def __notes__(self) -> Any:
            raise SystemExit(1)

        @property
        def __traceback__(self) -> TracebackType | None:  # type: ignore[override]
            return None

    assert "Odd" in trace_of(Odd("why"))
