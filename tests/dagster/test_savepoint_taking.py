"""What takes a savepoint: the process that runs the job, or the Dagster run from the job's files."""

import contextlib
import logging
import os
import threading

import pytest

from lakestate.assets.savepoint_taking import SavepointTaker
from lakestate.control import Endpoint, publish_endpoint
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import JobView
from lakestate.rest.savepoints import JobSavepoints
from lakestate.rest.server import serve
from state_engine.savepoint import ProcessWriter, SavepointRequest, list_savepoints

WISH = SavepointRequest(label="a", note="why", trigger="policy:cron")
LOG = logging.getLogger("test")


class Running:
    """The process of a job, which answers, and takes savepoints as a runner does."""

    job_id = job_id("flights")

    def __init__(self, root):
        self.savepoints, self.asked = JobSavepoints(root, "flights"), []

    def view(self):
        return JobView(
            job_id=self.job_id, name="flights", state="RUNNING", start_ms=0, end_ms=-1, now_ms=0, changed_ms=0,
            since_ms={}, incarnation="abc", generation=1, epoch=7, epochs=4, records=4, epoch_seconds=1.0, operators=(),
        )  # fmt: skip

    def trigger_savepoint(self, wanted):
        self.asked.append(wanted)
        return self.savepoints.trigger(wanted)


@contextlib.contextmanager
def published(root, url):
    """Publishes the endpoint of the job from another thread, which holds that file as its process would."""
    is_published, over = threading.Event(), threading.Event()

    def hold():
        with publish_endpoint(root, "flights", Endpoint(url=url, pid=os.getpid(), incarnation="abc")):
            is_published.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_published.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join(10)


@pytest.fixture
def root(stream):
    stream.checkpoints(1, 1)
    return stream.state_store.root


def taker(stream, spark_session=None):
    return SavepointTaker(
        "flights", stream.resources["state_store"], stream.resources["rest_client"], spark_session, LOG
    )


def test_a_running_job_is_asked_with_the_name_of_the_requester(stream, root):
    running = Running(root)
    with serve([running]) as server, published(root, server.url):
        taken = taker(stream).take(WISH)
    assert [wanted.trigger for wanted in running.asked] == ["policy:cron"]
    assert (taken.label, taken.note, taken.trigger) == ("a", "why", "policy:cron")
    assert taken == list_savepoints(root, "flights")[0]


def test_a_running_job_is_asked_at_its_next_epoch(stream, root):
    running = Running(root)
    sealing = threading.Timer(0.5, stream.epoch)
    with serve([running]) as server, published(root, server.url):
        sealing.start()
        taken = taker(stream).take(WISH, next_epoch_s=60)
    assert taken.epoch == 3


def test_without_a_next_epoch_nothing_is_under_way(stream, root):
    running = Running(root)
    with serve([running]) as server, published(root, server.url):
        assert taker(stream).take(WISH, next_epoch_s=0.3).epoch == 2


def test_a_canonical_one_in_a_directory_is_found_by_what_the_job_said(stream, root, tmp_path):
    wanted = SavepointRequest("canonical", str(tmp_path / "elsewhere"), "b")
    with serve([Running(root)]) as server, published(root, server.url):
        taken = taker(stream).take(wanted)
    assert (taken.kind, taken.label) == ("canonical", "b")


def test_of_a_process_that_does_not_answer_the_files_are_taken(stream, root, caplog):
    with published(root, "http://127.0.0.1:9"), caplog.at_level(logging.WARNING):
        taken = taker(stream).take(WISH)
    assert taken.trigger == "policy:cron"
    assert "is taken from the job's files" in caplog.text


def test_a_stopped_job_is_folded_by_the_session_of_the_run_if_that_is_wanted(stream, root):
    class Session:
        asked = 0

        def savepoint_writer(self):
            self.asked += 1
            return ProcessWriter(1)

    session = Session()
    assert taker(stream, session).take(SavepointRequest("native")).kind == "native"
    assert session.asked == 0, "a pin folds nothing"
    assert taker(stream, session).take(SavepointRequest("canonical")).kind == "canonical"
    assert session.asked == 1
