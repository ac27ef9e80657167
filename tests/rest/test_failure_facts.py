"""Failures reach programs as typed fields, from the driver's exception to the command line."""

import copy
import pickle

from fake_job import FakeJob, client_of, result_of

from lakestate.failure_facts import FailureFacts, facts_of
from lakestate.plain_json import encode_plain
from lakestate.rest.ends import ended_operation
from lakestate.rest.triggers import Ended, Key, Outcome
from lakestate.running_job import ended_from
from state_engine.errors import LakestateError, UserFunctionError

FAILED = UserFunctionError(
    "Operator 'count' failed. What to do: nothing yet.", action="Mend the function.", operator="count", key="'ann'"
)
FACTS = FailureFacts(
    type="UserFunctionError",
    message="Operator 'count' failed. What to do: nothing yet.",
    action="Mend the function.",
    operator="count",
    key="'ann'",
)


def test_an_error_keeps_its_fields_when_it_is_copied_or_sent() -> None:
    for error in (FAILED, copy.copy(FAILED), pickle.loads(pickle.dumps(FAILED))):
        assert type(error) is UserFunctionError
        assert facts_of(error) == FACTS
        assert str(error) == str(FAILED)


def test_fields_that_say_nothing_are_left_out() -> None:
    assert encode_plain(facts_of(ValueError("no"))) == b'{"type":"ValueError","message":"no"}'
    assert encode_plain(facts_of(LakestateError("no"))) == b'{"type":"LakestateError","message":"no"}'


def test_the_command_line_reads_the_fields_and_not_the_text() -> None:
    job = FakeJob()
    job.error = FAILED
    with client_of(job) as client:
        begun = client.post(f"/jobs/{job.job_id}/savepoints", json={}).json()
        answer = result_of(client, f"/jobs/{job.job_id}/savepoints", begun["request-id"])
    read = ended_from("savepoint", begun["request-id"], answer)
    kept = ended_operation(Ended(Key("savepoint", job.job_id, begun["request-id"]), 0, Outcome(error=FAILED)))
    assert read == kept
    assert (kept.error, kept.message, kept.action) == (FACTS.type, FACTS.message, FACTS.action)
    assert (kept.operator, kept.key) == (FACTS.operator, FACTS.key)


def test_the_text_of_a_process_of_an_earlier_release_is_read_whole() -> None:
    cause = {"class": "FlinkException", "stack-trace": "FlinkException: It broke. What to do: Mend it.\n  File x\n"}
    read = ended_from("savepoint", "id", {"operation": {"failure-cause": cause}})
    assert read is not None
    assert (read.error, read.message) == ("FlinkException", "FlinkException: It broke. What to do: Mend it.")
