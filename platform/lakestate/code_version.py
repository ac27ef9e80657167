"""Computes a digest of the code that a start of a registered job would run now: it changes with the code. No JVM.

The digest covers the entry point of the job's factory, its distribution and version, the Python files beside the
factory, and what `lakestate explain` shows of the job: operators, chains, states with their types, sinks. Another
process computes it. So the caller imports neither the job nor Spark, and a job that cannot be imported does no harm.

    python -m lakestate.code_version JOB
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import msgspec

from lakestate.registry import build_dry, find_job
from state_engine import __version__

_PATIENCE_S = 60.0
_DIGITS = 12


def code_version_of(job: str) -> str | None:
    """Returns the digest; null if it cannot be computed, such as for a job that is not registered or not importable.

    The answer is cached for the life of this process, since new code comes with a new process, such as a reloaded code
    location of Dagster.

    Args:
        job: Name of the job.
    """
    try:
        return _told(job)
    except (OSError, subprocess.TimeoutExpired):
        return None  # not cached: the machine is busy, and a later call may succeed


@lru_cache
def _told(job: str) -> str | None:
    command = [sys.executable, "-m", __name__, job]
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    words = process.stdout.split()
    return words[-1] if process.returncode == 0 and words else None


def digest_of(job: str) -> str:
    """Returns the digest; imports the job.

    Raises:
        JobDefinitionError: No job of this name is registered, or its factory cannot be imported.
    """
    entry = find_job(job)
    plan = _plan_of(job)
    distribution = entry.dist
    parts: list[object] = [
        entry.value,
        [distribution.name, distribution.version] if distribution is not None else __version__,
        {name: hashlib.sha256(data).hexdigest() for name, data in _sources(entry.module).items()},
        msgspec.to_builtins(plan) if plan is not None else None,
    ]
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:_DIGITS]


def _plan_of(job: str) -> msgspec.Struct | None:
    """Returns what the job is made of; null if only Spark can tell."""
    from state_engine.spark.explain import explain_job
    from state_engine.spark.graph.dry import NeedsSparkError

    try:
        return explain_job(build_dry(job))
    except NeedsSparkError:
        return None


def _sources(module: str) -> dict[str, bytes]:
    """Returns the Python files of the package that a module is in, or the module's own if it is in none."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return {}
    origin = Path(spec.origin)
    files = sorted(origin.parent.glob("*.py")) if spec.parent else [origin]
    return {file.name: file.read_bytes() for file in files}


if __name__ == "__main__":
    told = os.dup(1)
    os.dup2(2, 1)  # what the job prints when it is imported is not part of the answer
    os.write(told, f"{digest_of(sys.argv[1])}\n".encode())


__all__ = ["code_version_of", "digest_of"]
