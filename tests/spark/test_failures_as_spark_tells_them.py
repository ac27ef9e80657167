"""Spark's text of a failure is long, and its cause is in the middle: the message shows the cause. No JVM."""

import pickle
import signal
import traceback
from typing import Any

import pytest
from pyspark import cloudpickle

from state_engine.api.output_tag import columns_type
from state_engine.causes import HIDDEN, records_shown
from state_engine.errors import CorruptionError, EpochError, LakestateError, UserFunctionError
from state_engine.serialization.copies import RowCopies
from state_engine.spark.graph.computed import ComputedRunner
from state_engine.spark.graph.timing import AssignerRunner
from state_engine.spark.wire.exits import exit_line
from state_engine.spark.wire.failures import failure_of, reporting_failures
from state_engine.spark.wire.task_spec import loaded, unpack
from state_engine.spark.worker.map_runner import MapRunner

COLUMNS = columns_type("n bigint", "the test")
FRAMES = "".join(f'  File "/spark/worker.py", line {n}, in main\n    process()\n' for n in range(12))
JVM = "\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)"
FAILED = (
    "An error occurred while calling o99.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage "
    "failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 (TID 5) (host "
    "executor driver): "
)


class SparkError(Exception):
    """An exception like Spark's: only its text counts."""


def of_python(raised: str) -> SparkError:
    trace = f"org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{FRAMES}{raised}\n"
    return SparkError(f"{FAILED}{trace}{JVM}\n\nDriver stacktrace:{JVM}\nCaused by: {trace}{JVM}\n\t... 1 more")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("ModuleNotFoundError: No module named 'billing'", "ModuleNotFoundError: No module named 'billing'"),
        ("SystemExit: 2", "SystemExit: 2"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("ValueError: two\nlines", "ValueError: two\nlines"),
        ("job.OwnError: <exception str() failed>", "job.OwnError: <exception str() failed>"),
    ],
)
def test_the_last_line_of_the_python_traceback_is_reported(raised: str, told: str) -> None:
    assert failure_of(of_python(raised)) == (told, None)


def test_of_several_tracebacks_the_last_one_counts() -> None:
    first = f"ValueError: the first\n\nDuring handling of it:\n\nTraceback (most recent call last):\n{FRAMES}"
    assert failure_of(of_python(f"{first}OSError: the last")).cause == "OSError: the last"


def test_an_exception_in_a_group_is_reported() -> None:
    group = (
        f'{FAILED}  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in f\n'
        "  | ExceptionGroup: two (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
        '    | Traceback (most recent call last):\n    |   File "a.py", line 2, in g\n    | ValueError: the inner\n'
        f"    +------------------------------------\n{JVM}"
    )
    assert failure_of(SparkError(group)).cause.startswith("ValueError: the inner")


def test_a_cause_of_any_length_keeps_its_class_and_its_end() -> None:
    told = failure_of(of_python("ValueError: " + "x" * 20_000 + " the end")).cause
    assert told.startswith("ValueError: xxx")
    assert told.endswith(" the end")
    assert len(told) <= 1_000


def test_a_named_error_of_a_task_stays_what_it_is() -> None:
    named = UserFunctionError("Operator 'total' failed.", action="Mend it.", operator="total", key="'a'")
    told = failure_of(of_python(trace_of_task(named)))
    error = told.as_error("A task failed", otherwise=EpochError, action="Look at the log.")
    assert told.cause == "Operator 'total' failed."
    assert type(error) is UserFunctionError
    assert facts(error) == ("A task failed: Operator 'total' failed.", "Mend it.", "total", "'a'")


def test_a_named_error_keeps_a_message_of_several_lines_and_text_that_looks_like_an_action() -> None:
    named = CorruptionError("Two lines:\nthe file says ' What to do: nothing'.", action='Restore "it".')
    error = failure_of(of_python(trace_of_task(named))).as_error("It failed", otherwise=EpochError, action="")
    assert facts(error) == ("It failed: Two lines:\nthe file says ' What to do: nothing'.", 'Restore "it".', "", "")


def test_of_several_named_errors_the_last_one_counts() -> None:
    first, last = UserFunctionError("the first"), CorruptionError("the last")
    told = failure_of(of_python(f"{trace_of_task(first)}\nDuring handling of it:\n\n{trace_of_task(last)}"))
    assert type(told.error) is CorruptionError


@pytest.mark.parametrize("line", ["lakestate error: {}", 'lakestate error: {"type":"int","message":"x"}'])
def test_a_line_that_only_looks_like_an_error_of_ours_is_passed_over(line: str) -> None:
    assert failure_of(of_python(f"ValueError: the cause\n{line}")).error is None


def trace_of_task(error: LakestateError) -> str:
    """Returns the end of the traceback that a worker sends."""
    try:
        with reporting_failures():
            raise error
    except LakestateError as raised:
        return "".join(traceback.format_exception_only(raised))


def facts(error: LakestateError) -> tuple[str, str, str, str]:
    return error.message, error.action, error.operator, error.key


def test_what_is_no_named_error_is_quoted_in_another_one() -> None:
    error = failure_of(of_python("ValueError: odd")).as_error("It failed", otherwise=EpochError, action="Look.")
    assert type(error) is EpochError
    assert facts(error) == ("It failed: ValueError: odd.", "Look.", "", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "SparkException: Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault\n\n"
            "Current thread 0x1 (most recent call first):",
            "A Python worker process died. Fatal Python error: Segmentation fault.",
        ),
        (
            "SparkException: Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault\n\n"
            f"Current thread 0x1 (most recent call first):\n{exit_line(17, -signal.SIGSEGV)}\n",
            "A Python worker process died. Fatal Python error: Segmentation fault. It was killed by SIGSEGV.",
        ),
        (
            f"SparkException: Python worker exited unexpectedly (crashed): {exit_line(17, -signal.SIGKILL)}\n",
            "A Python worker process died. It was killed by SIGKILL (Linux does that when memory runs out).",
        ),
        (
            f"SparkException: Python worker exited unexpectedly (crashed): {exit_line(17, 3)}\n",
            "A Python worker process died. It exited with code 3.",
        ),
        (
            f"SparkException: Python worker exited unexpectedly (crashed): {exit_line(17, -40)}\n",
            "A Python worker process died. It was killed by signal 40.",
        ),
        (
            "SparkException: Python worker exited unexpectedly (crashed). Consider setting …",
            "A Python worker process died. Set spark.python.worker.faulthandler.enabled to true to learn how.",
        ),
        (
            "most recent failure: Lost task 0.3 in stage 3.0 (TID 5): ExecutorLostFailure (executor 7 "
            "exited caused by one of the running tasks) Reason: Command exited with code 137",
            "Executor 7 died. Command exited with code 137 (SIGKILL)",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero." + JVM, "[DIVIDE_BY_ZERO] Division by zero."),
        (
            f"Query failed{JVM}\nCaused by: java.io.IOException: outer{JVM}\nCaused by: java.io.IOException: disk full",
            "Query failed Caused by: java.io.IOException: disk full",
        ),
        ("", "Spark has said nothing."),
    ],
)
def test_what_is_no_python_exception_is_reported_too(text: str, told: str) -> None:
    assert failure_of(SparkError(text)).cause == told


def test_an_exception_of_spark_without_a_jvm_is_reported_by_its_class() -> None:
    class Gone(Exception):
        def __str__(self) -> str:
            raise AssertionError

    assert "AssertionError" in failure_of(Gone()).cause


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("ValueError: no 'secret'", f"ValueError: {HIDDEN}"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("ModuleNotFoundError: No module named 'billing'", "ModuleNotFoundError: No module named 'billing'"),
    ],
)
def test_without_records_what_a_function_in_an_expression_says_is_left_out(raised: str, told: str) -> None:
    with records_shown(False):
        assert failure_of(of_python(raised)).cause == told


def test_without_records_the_values_that_spark_quotes_are_left_out() -> None:
    with records_shown(False):
        told = failure_of(
            SparkError("[CAST_INVALID_INPUT] The value 'secret' of the type \"STRING\" cannot be cast")
        ).cause
    assert "secret" not in told
    assert "[CAST_INVALID_INPUT]" in told


# What a worker cannot load -------------------------------------------------------------------------------------------


class FromAModuleThatIsNotThere:
    def __reduce__(self) -> Any:
        return __import__, ("no_such_module_here",)

    def __call__(self, row: Any) -> Any:
        return row


def test_an_operator_that_a_worker_cannot_load_is_named() -> None:
    inner = cloudpickle.dumps(FromAModuleThatIsNotThere())
    with pytest.raises(UserFunctionError) as refused:
        unpack(cloudpickle.dumps(("total", inner)))
    assert refused.value.message == (
        "The function of operator 'total' cannot be loaded by a worker: "
        "ModuleNotFoundError: No module named 'no_such_module_here'."
    )
    assert "install" in refused.value.action
    assert refused.value.operator == "total"
    assert failure_of(of_python("".join(traceback.format_exception_only(refused.value)))).error is not None


@pytest.mark.parametrize(
    ("runner", "named"),
    [
        (MapRunner(FromAModuleThatIsNotThere(), COLUMNS, COLUMNS, uid="total"), "on the output of operator 'total'"),
        (
            ComputedRunner(FromAModuleThatIsNotThere(), COLUMNS, COLUMNS, "in"),
            "columns of the records of source 'in'",
        ),
        (
            AssignerRunner(FromAModuleThatIsNotThere(), COLUMNS, "in"),
            "on the records of source 'in'",
        ),  # type: ignore[arg-type]
    ],
)
def test_a_function_without_uid_that_a_worker_cannot_load_is_named_by_its_place(runner: Any, named: str) -> None:
    sent = cloudpickle.dumps(runner)
    with pytest.raises(UserFunctionError, match="No module named") as refused:
        pickle.loads(sent)
    assert named in refused.value.message


def test_a_map_travels_with_all_that_it_has() -> None:
    here = MapRunner(len, COLUMNS, COLUMNS, ["a", "b"], "total")
    unpickled = pickle.loads(cloudpickle.dumps(here))
    assert _parts(unpickled) == _parts(here)


def _parts(runner: MapRunner) -> dict[str, Any]:
    return {name: vars(part) if isinstance(part, RowCopies) else part for name, part in vars(runner).items()}


def test_code_that_leaves_while_it_is_loaded_is_named() -> None:
    class Leaving:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit(3)",)

    with pytest.raises(UserFunctionError, match="SystemExit: 3"):
        loaded(cloudpickle.dumps(Leaving()), "The function")


# Functions on a source's records -------------------------------------------------------------------------------------


def test_a_function_on_a_sources_records_is_named_with_the_record() -> None:
    import pyarrow as pa

    def compute(row: Any) -> Any:
        raise SystemExit(f"on {row.n}")

    with pytest.raises(UserFunctionError, match=r"source 'in', .*, raised SystemExit: on 7\. Record: Row\(n=7\)"):
        list(ComputedRunner(compute, COLUMNS, COLUMNS, "in")([pa.RecordBatch.from_pydict({"n": [7]})]))


def test_an_assigner_that_raises_is_named_with_the_record() -> None:
    import pyarrow as pa

    class Broken:
        def extract_timestamp(self, row: Any, before: int) -> int:
            raise ValueError("no time")

    with pytest.raises(UserFunctionError, match=r"source 'in', raised ValueError: no time\. Record: Row\(n=7\)"):
        list(AssignerRunner(Broken(), COLUMNS, "in")([pa.RecordBatch.from_pydict({"n": [7]})]))  # type: ignore[arg-type]
