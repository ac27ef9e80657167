import os
import signal
from pathlib import Path

import pytest

from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.spark.worker import kill_at
from state_engine.spark.worker.kill_at import KillAt, crash_from_environment


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(kill_at.os, "kill", lambda pid, sign: calls.append((pid, sign)))
    return calls


def test_it_kills_at_its_point_and_epoch_only(kills: list[tuple[int, int]]) -> None:
    killer = KillAt("E6_SEALED@12", pid=77)
    killer.at(CrashPoint.E6_SEALED, 11)
    killer.at(CrashPoint.E6_BEFORE_PUT, 12)
    assert not kills
    killer.at(CrashPoint.E6_SEALED, 12)
    assert kills == [(77, signal.SIGKILL)]


def test_any_epoch_and_its_own_process(kills: list[tuple[int, int]]) -> None:
    KillAt("E4_OPERATED@*").at(CrashPoint.E4_OPERATED, 3)
    assert kills == [(os.getpid(), signal.SIGKILL)]


def test_with_a_marker_it_kills_once(kills: list[tuple[int, int]], tmp_path: Path) -> None:
    for _ in range(3):
        KillAt("E4_OPERATED@*", marker=str(tmp_path / "killed")).at(CrashPoint.E4_OPERATED, 3)
    assert len(kills) == 1


@pytest.mark.parametrize("spec", ["E6_SEALED", "E6_SEALED@", "E6_SEALED@x", "NOWHERE@1", ""])
def test_a_spec_that_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="POINT@EPOCH"):
        KillAt(spec)


def test_the_environment_decides() -> None:
    assert isinstance(crash_from_environment({}), NoCrash)
    assert isinstance(crash_from_environment({"LAKESTATE_CRASH_AT": "E6_SEALED@*"}), KillAt)
