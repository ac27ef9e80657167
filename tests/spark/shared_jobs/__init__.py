"""Jobs of several parts, which are restored at another parallelism and on another backend; each module is one job.

A part has its own sources, operators and sinks, and knows what its outputs and states must be after each start;
`tests/spark/test_shared_jobs.py` runs the jobs, and has a test for each part.
"""

from .part import STARTS, Part, Ran, Start

__all__ = ["STARTS", "Part", "Ran", "Start"]
