"""The history of a job, computed from its manifests."""

from typing import Any

from lakestate.demo_history import History, summarise
from state_engine.log.records import Ack, Manifest, OperatorEpoch, Span

OPEN = (Span(generation=1, first=1),)
SECOND = (Span(generation=1, first=1, last=3), Span(generation=2, first=4))


def manifest(
    epoch: int, kind: Any = "epoch", *, of: str = "a", records: int = 10, parallelism: int = 2, lineage: Any = OPEN
) -> Manifest:
    acks = tuple(
        Ack(uid="op", subtask=i, attempt="x", records_in=records if i == 0 else 0, records_out=0)
        for i in range(parallelism)
    )
    return Manifest(
        job="flights",
        generation=lineage[-1].generation,
        epoch=epoch,
        kind=kind,
        incarnation=of,
        incarnation_number=1,
        predecessor="" if epoch == 1 else "hash",
        processing_time=0,
        lineage=lineage,
        operators={"op": OperatorEpoch(parallelism=parallelism, max_parallelism=128, acks=acks)},
    )


def test_a_start_is_a_restore_when_something_was_sealed_before_it() -> None:
    once = [manifest(1, "claim"), manifest(2), manifest(3)]
    assert summarise(once, "op") == History(records_in=20, epochs=2, restores=0, parallelism=[2])
    again = [*once, manifest(4, "claim", of="b"), manifest(5, of="b")]
    assert summarise(again, "op") == History(records_in=30, epochs=3, restores=1, parallelism=[2])


def test_abandoned_epochs_count_but_their_records_do_not() -> None:
    manifests = [
        manifest(1, "claim"),
        manifest(2),
        manifest(3),
        manifest(4, records=99),
        manifest(5, "closing", of="b"),
        manifest(4, "claim", of="b", parallelism=3, lineage=SECOND),
        manifest(5, of="b", parallelism=3, lineage=SECOND, records=7),
    ]
    assert summarise(manifests, "op") == History(records_in=27, epochs=4, restores=1, parallelism=[2, 3])


def test_no_manifests() -> None:
    assert summarise([], "op") == History(0, 0, 0, [])
