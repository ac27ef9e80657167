"""`RestClientResource` with the process of a real stream, which `JobControlResource` has started."""

import pytest
from live_job import MAX_PARALLELISM, truth
from live_stream import LiveStream, announce

from lakestate.control import RunnerUnreachableError
from lakestate.errors import AddressError, JobNotRunningError
from lakestate.resources import JobControlResource, RestClientResource
from lakestate.resources.rest_client import URLS
from lakestate.running_job import OperationFailedError
from lakestate.supervision import Condition
from state_engine.savepoint import SavepointRequest, list_savepoints

PATIENCE_S = 400


def test_a_job_that_does_not_run(tmp_path):
    client = RestClientResource(root=str(tmp_path))
    assert not client.is_running("tide")
    with pytest.raises(JobNotRunningError, match="No process of this machine runs job 'tide'"):
        client.savepoint("tide")


def test_addresses_of_jobs_that_run_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv(URLS, "tide=http://127.0.0.1:1 flood=http://127.0.0.1:2")
    with pytest.raises(RunnerUnreachableError, match=r"127\.0\.0\.1:1"):
        RestClientResource(root=str(tmp_path)).savepoint("tide")
    with pytest.raises(RunnerUnreachableError, match=r"127\.0\.0\.1:3"):
        RestClientResource(root=str(tmp_path), urls={"tide": "http://127.0.0.1:3"}).savepoint("tide")
    with pytest.raises(JobNotRunningError):
        RestClientResource(root=str(tmp_path)).savepoint("ebb")
    monkeypatch.setenv(URLS, "http://127.0.0.1:1")
    with pytest.raises(AddressError, match="no address of a job"):
        RestClientResource(root=str(tmp_path)).savepoint("tide")


def test_a_token_is_no_setting():
    assert set(RestClientResource.model_fields) == {"root", "urls"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_all_requests_to_a_running_job(tmp_path, monkeypatch):
    announce(tmp_path, "tide")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{__file__.rpartition('/')[0]}", prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path))
    control, client = (kind(root=str(tmp_path / "state")) for kind in (JobControlResource, RestClientResource))
    with LiveStream(tmp_path / "state", "tide") as stream:
        stream.feed(3)
        control.start("tide")
        stream.wait_until_read(PATIENCE_S)
        assert client.is_running("tide")
        assert client.checkpoint("tide", full=True) > 0

        location = client.savepoint("tide", SavepointRequest(label="before"))
        [savepoint] = list_savepoints(stream.root, "tide")
        assert location.endswith(savepoint.savepoint_id)
        assert savepoint.label == "before"

        client.rescale("tide", 3)
        client.rescale("tide", {"totals": 1})
        stream.feed(1).wait_until_read(PATIENCE_S)
        assert [stream.newest.operators[uid].parallelism for uid in ("tally", "totals")] == [3, 1]
        with pytest.raises(OperationFailedError, match="The job goes on"):
            client.rescale("tide", {"other": 2})

        everything = [(0, MAX_PARALLELISM - 1)]
        report = client.restore_key_groups(
            "tide", savepoint.savepoint_id, everything, operators=["totals"], dry_run=True
        )
        assert report.job == "tide"

        told = client.incarnation("tide")
        assert (told.pid, told.name, told.state) == (control.status("tide").pid, "tide", "RUNNING")
        assert 'lakestate_job_running{job="tide",state="RUNNING"} 1.0' in client.metrics("tide")

        assert client.stop("tide", SavepointRequest(label="after")).startswith("file://")
        assert [one.label for one in list_savepoints(stream.root, "tide")] == ["before", "after"]
        assert (stream.tally(), stream.totals()) == truth(stream.rows)
        stream.wait_for(lambda: control.status("tide").condition is Condition.ENDED, "the end of its process")
