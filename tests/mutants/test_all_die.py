"""Every planted bug is killed: one test per mutant, for the long run. `.ci/run` runs ten of them: `make mutants`."""

from pathlib import Path

import pytest
from mutant import Mutant
from mutant_runs import Verdict, run_mutant
from planted import MUTANTS


@pytest.mark.long
@pytest.mark.parametrize("mutant", [m for m in MUTANTS if not m.equivalent], ids=lambda mutant: mutant.id)
def test_it_dies(mutant: Mutant, package: Path) -> None:
    ran = run_mutant(mutant, package)
    assert ran.verdict is Verdict.KILLED, ran.message
