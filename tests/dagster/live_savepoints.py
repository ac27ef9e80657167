"""Savepoints of a live stream as Dagster records them, for the tests that take them."""

from datetime import timedelta

from lakestate.policies import SavepointPolicy, StreamPolicies, StreamRetention
from lakestate.policies.savepoints import Spacing
from state_engine.savepoint import list_savepoints

NONE = Spacing(at_least=timedelta(0), per_gib=timedelta(0), busy_percent=100)
SECOND = timedelta(seconds=1)


def policies(retention=None, **fields):
    savepoints = SavepointPolicy(**{"spacing": NONE, "look_every": SECOND, "record_taken_elsewhere": True} | fields)
    return StreamPolicies(report_every=SECOND, savepoints=savepoints, retention=retention or StreamRetention())


def events(dagster, stream):
    """Returns the savepoints that were recorded, by partition."""
    found = dagster.client.materializations(f"{stream.job}/savepoint")
    return {event["partition"]: event for event in reversed(found)}


def wait_for_savepoint(dagster, stream, trigger):
    """Waits until a savepoint of a trigger is recorded, with its checks passed in that run; returns its event."""
    client = dagster.client

    def look():
        found = [one for one in events(dagster, stream).values() if one["metadata"]["trigger"] == trigger]
        return found[0] if found else None

    event = client.wait_for(look, f"a savepoint by {trigger} of {stream.job}")
    client.wait_for_run(event["run_id"])
    assert_checked(client, stream, event)
    return event


def assert_checked(client, stream, event):
    checks = client.checks(f"{stream.job}/savepoint")
    assert len(checks) >= 5
    assert all(check is not None and check["success"] for check in checks.values()), checks
    assert {check["metadata"]["savepoint_id"] for check in checks.values()} == {event["metadata"]["savepoint_id"]}


def savepoint_of(stream, label):
    (taken,) = [one for one in list_savepoints(stream.root, stream.job) if one.label == label]
    return taken
