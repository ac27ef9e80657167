"""An object store whose answers fail, are late or get lost: nothing is lost or doubled, and a job goes on."""

import pytest
from faulty_s3 import FaultyS3
from typer.testing import CliRunner
from whole_job import BATCH, WholeJob

from lakestate.cli import app
from state_engine.errors import LakestateError, NotWritableError, UnsupportedStorageError
from state_engine.storage.open import open_root

EPOCHS = 20
ROOT = "s3://bucket/state"


ALL = {"throttled": 0.05, "lost": 0.05, "cut": 0.05, "slow": 0.02}
ALONE = [{"throttled": 0.3}, {"lost": 0.15}, {"cut": 0.15}, {"slow": 0.05}]


@pytest.mark.parametrize(
    "chances",
    [ALL, *(pytest.param(one, marks=pytest.mark.long) for one in ALONE)],
    ids=lambda chances: "-".join(chances),
)
def test_a_job_goes_on_and_each_record_is_there_once(faulty: FaultyS3, chances: dict[str, float]) -> None:
    job = WholeJob(f"s3://bucket/{'-'.join(chances)}")
    faulty.play(seed=11, **chances)
    starts, driver = 0, None
    while driver is None or driver.offset < EPOCHS * BATCH:
        try:
            if driver is None:
                starts, driver = starts + 1, job.start()
            driver.step()
        except LakestateError:  # a process that ends with an error is started again
            driver = None
            if starts == 10:
                raise
    played = faulty.play()
    assert played.keys() == chances.keys(), "each fault was played"
    job.start()
    assert job.rows() == list(range(driver.offset))
    assert job.rows_in_memory() == job.rows()


def test_a_store_that_throttles_for_a_while_is_waited_for(faulty: FaultyS3) -> None:
    open_root(ROOT).put_if_absent("x", b"there")
    faulty.play(throttled=1.0, most=5)
    assert open_root(ROOT).get("x") == b"there"
    assert faulty.play() == {"throttled": 5}


@pytest.mark.parametrize("kind", ["replaces", "unsupported"])
def test_a_store_without_conditional_puts_is_refused(faulty: FaultyS3, kind: str) -> None:
    faulty.play(**{kind: 1.0})
    with pytest.raises(UnsupportedStorageError, match="does not honour conditional puts") as refused:
        open_root(f"{ROOT}/{kind}").check_writable()
    assert refused.value.action.startswith("Use a store that refuses a put with If-None-Match")


@pytest.mark.parametrize("kind", ["lost", "cut", "throttled"])
def test_answers_that_fail_do_not_make_a_store_unfit(faulty: FaultyS3, kind: str) -> None:
    faulty.play(seed=3, **{kind: 0.4})
    for number in range(10):
        open_root(f"{ROOT}/{kind}-{number}").check_writable()
    assert faulty.play()[kind]


def test_wrong_credentials_are_a_failure_that_does_not_name_them(
    faulty: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    with pytest.raises(NotWritableError, match="refused access"):
        open_root(ROOT).check_writable()
    for verb in (("list",), ("status", "flights"), ("savepoint", "flights"), ("savepoints", "list", "flights")):
        ended = CliRunner().invoke(app, verb, env={"LAKESTATE_ROOT": ROOT})
        assert ended.exit_code == 1
        assert "NotWritableError: The object store refused access" in ended.stderr
        assert ended.stdout == ""
        assert len(ended.stderr.splitlines()) == 1
        assert "a secret" not in ended.stderr
