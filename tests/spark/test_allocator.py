"""Memory of arrays that an epoch frees is reused by the next epoch, unless the environment says otherwise."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from state_engine.spark.worker.allocator import keep_memory

kept = {call}
for epoch in range(13):
    if epoch == 3:  # glibc itself learns from the first ones
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    together = [np.arange(500_000) for _ in range(10)]
    del together
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(call: str = "keep_memory()", **variables: str) -> tuple[str, int]:
    """Returns what a new process prints: whether it keeps memory, and how many pages it got from the system again."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROGRAM.format(call=call)]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=True)
    kept_memory, faults = done.stdout.split()
    return kept_memory, int(faults)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_memory_that_was_freed_is_used_again() -> None:
    assert run("False")[1] > 10_000
    kept, faults = run()
    assert kept == "True"
    assert faults < 2_000


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_environment_says_counts(name: str) -> None:
    value = "glibc.malloc.check=0" if name == "GLIBC_TUNABLES" else "131072"
    assert run(**{name: value})[0] == "False"
