"""Ten planted bugs, of all rooms, die in each run of the tests: the tests still see what they are there for."""

from pathlib import Path

import pytest
from mutant import Mutant
from mutant_runs import Verdict, run_mutant
from planted import FIXED


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FIXED, ids=lambda mutant: mutant.id)
def test_it_dies(mutant: Mutant, package: Path) -> None:
    ran = run_mutant(mutant, package)
    assert ran.verdict is Verdict.KILLED, ran.message
