"""Errors of operating jobs, which the command line, the supervision and Dagster share.

The errors of jobs themselves are those of `state_engine.errors`.
"""

from state_engine.errors import LakestateError


class JobNotRunningError(LakestateError):
    """No process of this machine runs the job."""


class JobMayRunError(LakestateError):
    """Nobody knows whether a job runs, and what was asked for would end it."""


class UnknownTriggerError(LakestateError):
    """Nothing is known of an operation of this id."""


class AddressError(LakestateError):
    """An address is none, or holds a secret."""


__all__ = ["AddressError", "JobMayRunError", "JobNotRunningError", "UnknownTriggerError"]
