import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # `benchmarks` is run from the root folder, never installed

from benchmarks.model import Result


@pytest.fixture
def row() -> Callable[..., Result]:
    """Makes a row of Lakestate at 200,000 records per epoch; named fields replace its own."""

    def make(**changes: Any) -> Result:
        fields: dict[str, Any] = {
            "workload": "running_count",
            "engine": "lakestate",
            "form": "row",
            "backend": "heap",
            "key_type": "int",
            "keys": 100_000,
            "records": 2_000_000,
            "epoch_records": 200_000,
            "parallelism": 2,
            "records_per_second": 500_000.0,
            "cpu_seconds_per_million": 3.5,
            "peak_rss_mb": 1_000.0,
            "results_equal": True,
        }
        return Result(**{**fields, **changes})

    return make
