"""The tables of several sinks take an epoch side by side; what one refuses ends the epoch, and the others have it."""

from collections.abc import Callable
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any

import pytest

from state_engine.api.output_tag import columns_type
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import MissingFileError, SinkError, StorageError
from state_engine.spark.graph.nodes import SinkNode
from state_engine.spark.graph.sinks import DeltaSink, ForeachEpochSink
from state_engine.spark.sinks.commits import SinkCommits

UIDS = ("a", "b", "c")


class Tables:
    """Three tables and a function, and what they were given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, commit: Callable[[str], None] = lambda uid: None) -> None:
        self.taken: list[str] = []
        self.left_out: list[str] = []
        self.announced: list[tuple[CrashPoint, int]] = []
        self._lock = Lock()
        nodes = [SinkNode("f", "main", ForeachEpochSink(lambda epoch, rows: self._take("f")))]
        nodes += [SinkNode(uid, "main", DeltaSink(f"/nowhere/{uid}")) for uid in UIDS]
        node: Any = SimpleNamespace(sinks=nodes, output=columns_type("name string", "the test"), side_outputs={})
        nothing: Any = None
        self.sinks = SinkCommits("job", [node], nothing, nothing, lambda *at: self.announced.append(at))
        monkeypatch.setattr(self.sinks, "_staged", lambda files: None)
        monkeypatch.setattr(self.sinks._identity, "is_current", lambda *_: True)
        for uid in UIDS:
            table = SimpleNamespace(
                commit=lambda *_, uid=uid, **__: (commit(uid), self._take(uid)),
                leave_out=lambda *_, uid=uid: self.left_out.append(uid),
            )
            monkeypatch.setitem(self.sinks._exact, uid, table)  # type: ignore[arg-type]
        ack = SimpleNamespace(outputs=[SimpleNamespace(output=uid) for uid in ("f", *UIDS)])
        operators = {"op": SimpleNamespace(acks=[ack])}
        self.sealed: Any = SimpleNamespace(manifest=SimpleNamespace(generation=1, epoch=3, operators=operators))

    def _take(self, uid: str) -> None:
        with self._lock:
            self.taken.append(uid)


def test_all_take_it_at_the_same_time_and_functions_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    together = Barrier(len(UIDS))
    tables = Tables(monkeypatch, lambda uid: (together.wait(timeout=20), None)[1])
    tables.sinks.commit(tables.sealed)
    assert (sorted(tables.taken[:3]), tables.taken[3:]) == (list(UIDS), ["f"])
    assert tables.announced == 4 * [(CrashPoint.E7_SINK_COMMITTED, 3)]


@pytest.mark.parametrize("refuses", UIDS)
@pytest.mark.parametrize("error", [StorageError("no answer"), ValueError("no")])
def test_what_one_refuses_ends_the_epoch_and_the_others_have_it(
    monkeypatch: pytest.MonkeyPatch, refuses: str, error: Exception
) -> None:
    def commit(uid: str) -> None:
        if uid == refuses:
            raise error

    tables = Tables(monkeypatch, commit)
    with pytest.raises(StorageError if isinstance(error, StorageError) else SinkError, match="no"):
        tables.sinks.commit(tables.sealed)
    assert sorted(tables.taken) == sorted({*UIDS} - {refuses}), "a function does not get what the epoch still owes"


def test_only_what_cannot_be_paid_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(uid: str) -> None:
        if uid == "b":
            raise MissingFileError("part-1 is gone")

    tables = Tables(monkeypatch, commit)
    tables.sinks.pay(tables.sealed, leave_out=True, without=["c"])
    assert (sorted(tables.taken), tables.left_out) == (["a", "f"], ["b"])
