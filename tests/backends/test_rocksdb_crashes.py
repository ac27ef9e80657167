"""A worker dies before any write to its database: the database then has the state of the epoch that the token names."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deaths import another_boot
from dying_worker import Worker
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.backends.rocksdb import backend, store


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes loads consist of many pieces; the larger pieces are ingested as files."""
    monkeypatch.setattr(backend, "_LOAD_ROWS", 20)
    monkeypatch.setattr(store, "_WORTH_A_FILE", 8)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / str(n) for n in count())


@pytest.mark.parametrize("machine", [False, True])
def test_death_before_any_write_leaves_the_epoch_that_the_token_names(folders: Iterator[Path], machine: bool) -> None:
    for writes in count():
        worker = Worker(next(folders))
        remaining = worker.live(range(1, 5), writes, machine=machine)
        with another_boot() if machine else nullcontext():
            worker.live(range(5, 7), 1_000)
            worker.live((), 1_000)
        if remaining >= 0:
            break
    assert writes > 4  # each epoch has one write at least


@pytest.mark.parametrize("machine", [False, True])
def test_death_before_any_write_of_a_load_leaves_nothing_that_counts(folders: Iterator[Path], machine: bool) -> None:
    first = Worker(next(folders))
    first.live(range(1, 5), 1_000)
    cells: set[int] = set()
    for writes in count():
        worker = Worker(next(folders))  # on another machine: it has to load all states
        worker.has(first)
        remaining = worker.live((), writes, machine=machine)
        with another_boot() if machine else nullcontext():
            worker.live((), 1_000)
            cells.add(worker.cells())
            worker.live((5, 6), 1_000)
            worker.live((), 1_000)
        if remaining >= 0:
            break
    assert writes > 12  # four states and timers, in pieces
    assert len(cells) == 1  # no cell is left of a load that was cut off


@settings(max_examples=settings.default.max_examples // 8)
@given(deaths=st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_workers_die_again_and_again(deaths: list[int]) -> None:
    with TemporaryDirectory() as folder:
        worker = Worker(Path(folder))
        for writes in [*deaths, 1_000]:
            number = len(worker.turns.epochs) + 1
            worker.live(range(number, number + 3), writes)
        assert len(worker.turns.epochs) >= 3
