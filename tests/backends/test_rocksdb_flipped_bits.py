"""One flipped bit in a worker's database: the state is unchanged or loaded again, or the worker fails by name."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from dying_worker import Worker

from state_engine.errors import LakestateError


@pytest.fixture
def lived(tmp_path: Path) -> Worker:
    """Returns a worker with a database of four epochs, closed as at the end of a worker."""
    worker = Worker(tmp_path / "lived")
    worker.live(range(1, 5), 1_000)
    return worker


@pytest.mark.parametrize("flips", [60, pytest.param(3_000, marks=pytest.mark.long)])
def test_no_flipped_bit_of_a_database_is_read_as_other_state(lived: Worker, tmp_path: Path, flips: int) -> None:
    rng, ends = random.Random(f"{flips} flips"), Counter[str]()
    files = [path.relative_to(lived.turns.folder) for path in lived.turns.folder.rglob("*") if path.is_file()]
    sizes = [(lived.turns.folder / path).stat().st_size for path in files]
    for flip in range(flips):
        worker = Worker(tmp_path / str(flip))
        shutil.copytree(lived.turns.folder, worker.turns.folder)
        worker.has(lived)
        path = rng.choices(files, sizes)[0] if flip % 2 else rng.choice(files)
        where = flip_a_bit(worker.turns.folder / path, rng)
        try:
            worker.live((), 1_000)
            worker.live((5,), 1_000)
            worker.live((), 1_000)
            ends["as it was"] += 1
        except LakestateError as error:
            ends[type(error).__name__] += 1
            worker.turns.close()
        except AssertionError as error:
            error.add_note(f"after a flip in {path} at bit {where}")
            raise
        shutil.rmtree(worker.turns.folder)
    assert ends["as it was"] > flips // 4, ends


def flip_a_bit(path: Path, rng: random.Random) -> int:
    data = bytearray(path.read_bytes())
    if not data:
        return -1
    bit = rng.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    path.chmod(0o644)
    path.write_bytes(data)
    return bit
