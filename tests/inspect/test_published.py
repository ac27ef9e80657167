"""What a checkpoint published of each state: rows per key group, and a few rows that are really live."""

import random
from collections import Counter
from pathlib import Path

import pytest

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import MissingFileError
from state_engine.inspect import PublishedStates, open_job, read_state
from state_engine.inspect import published as module
from state_engine.key_groups import key_group_of
from state_engine.log.records import StateSchema
from state_engine.storage.local import LocalStorage
from state_engine.storage.state_reader import read_base
from state_engine.testing.changes import Change, append, delete, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import COUNT, LEGS, SEEN, random_changes, sample_job

STATES = {"aircraft/count": COUNT, "aircraft/legs": LEGS, "carrier/seen": SEEN}


class Publishing:
    """A job with a checkpoint of every epoch."""

    def __init__(self, root: str) -> None:
        self.job: JobBuilder = sample_job(root)
        self.publisher = CheckpointPublisher(self.job.storage, self.job.job)
        self._id = 0

    def publish(self, changes: dict[tuple[str, str], list[Change]]) -> PublishedStates:
        self._id += 1
        self.publisher.begin(self.job.epoch(changes, checkpoint_id=self._id))  # type: ignore[arg-type]
        self.job.adopt(self.publisher.completed())
        return self.look()

    def look(self) -> PublishedStates:
        view = open_job(self.job.root, self.job.job)
        newest = view.completed_checkpoints().newest()
        assert newest is not None
        published = view.published(newest)
        assert published is not None
        return published


@pytest.fixture
def publishing(tmp_path: Path) -> Publishing:
    return Publishing(str(tmp_path))


def schema(published: PublishedStates, table: str) -> StateSchema:
    known = published.schema(table)
    assert known is not None
    return known


def test_rows_of_key_groups_are_those_of_the_log(publishing: Publishing) -> None:
    published = publishing.publish({("aircraft", "count"): [put(f"N{number}", number) for number in range(50)]})
    expected = Counter(key_group_of((f"N{number}",), ["string"], 13) for number in range(50))
    assert published.key_groups(schema(published, "aircraft/count")) == [expected[group] for group in range(13)]
    assert published.key_groups(schema(published, "carrier/seen")) == []
    assert published.schema("carrier/other") is None


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_has_rows_that_live_at_the_checkpoint(publishing: Publishing, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(8):
        published = publishing.publish(random_changes(rng, 20))  # type: ignore[arg-type]
        for table, known in STATES.items():
            live = read_state(publishing.job.root, "flights", known.uid, known.name).to_pylist()
            sample = published.sample(schema(published, table), 5).to_pylist()
            assert len(sample) <= 5
            assert all(one in live for one in sample)


def test_a_sample_is_of_what_was_written_last(publishing: Publishing) -> None:
    publishing.publish({("aircraft", "count"): [put(f"N{number}", number) for number in range(20)]})
    published = publishing.publish({("aircraft", "count"): [delete("N1"), put("N2", 22)]})
    assert [row["value"] for row in published.sample(schema(published, "aircraft/count"), 5).to_pylist()] == [22]
    published = publishing.publish({("aircraft", "count"): [delete("N3")]})
    assert published.sample(schema(published, "aircraft/count"), 5).num_rows == 0


def test_of_a_large_file_only_the_first_pages_are_read(publishing: Publishing, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    rng = random.Random(1)
    legs = [append(f"N{number}", {"origin": rng.randbytes(1_000).hex(), "minutes": number}) for number in range(2_000)]
    published = publishing.publish({("aircraft", "legs"): legs})
    known = schema(published, "aircraft/legs")
    base = read_base(publishing.job.storage, publishing.job.base)  # type: ignore[arg-type]
    [file] = [file for file in base.files if file.schema_id == known.schema_id]
    at_most = file.length * 3 // 4
    monkeypatch.setattr(module, "LARGEST_HEAD", at_most)
    get_range = LocalStorage.get_range

    def counted(self: LocalStorage, path: str, offset: int, length: int) -> bytes:
        read.append(length)
        return get_range(self, path, offset, length)

    monkeypatch.setattr(LocalStorage, "get_range", counted)
    sample = published.sample(known, 5).to_pylist()
    assert len(sample) == 5
    assert all({"origin", "minutes"} == row["value"].keys() for row in sample)
    assert 0 < sum(read) <= at_most


def test_values_that_are_too_large_are_not_read(publishing: Publishing, monkeypatch: pytest.MonkeyPatch) -> None:
    published = publishing.publish({("aircraft", "count"): [put(f"N{number}", number) for number in range(200)]})
    monkeypatch.setattr(module, "LARGEST_HEAD", 100)
    assert published.sample(schema(published, "aircraft/count"), 5).num_rows == 0


def test_a_base_that_is_gone_is_named(publishing: Publishing) -> None:
    publishing.publish({("aircraft", "count"): [put("N1", 1)]})
    assert publishing.job.base is not None
    publishing.job.storage.delete(publishing.job.base.path)
    with pytest.raises(MissingFileError, match=publishing.job.base.path):
        publishing.look()
