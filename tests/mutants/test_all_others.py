"""All other planted bugs, one test each, for the long run."""

from pathlib import Path

import pytest
from mutant import Mutant
from mutant_runs import Verdict, run_mutant
from planted import FIXED, MUTANTS

OTHERS = [mutant for mutant in MUTANTS if mutant not in FIXED and not mutant.equivalent]


@pytest.mark.long
@pytest.mark.parametrize("mutant", OTHERS, ids=lambda mutant: mutant.id)
def test_it_dies(mutant: Mutant, package: Path) -> None:
    ran = run_mutant(mutant, package)
    assert ran.verdict is Verdict.KILLED, ran.message
