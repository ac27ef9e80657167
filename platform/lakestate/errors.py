"""Errors of operating jobs, which the command line, the supervision and Dagster share.

The errors of jobs themselves are those of `state_engine.errors`.
"""

from state_engine.errors import LakestateError


class JobNotRunningError(LakestateError):
    """No process of this machine runs the job."""


class JobMayRunError(LakestateError):
    """It is not known whether a job runs; if it does, the requested operation would end it."""


class UnknownTriggerError(LakestateError):
    """No operation with this id is known."""


class CodeLocationError(LakestateError):
    """Dagster's code location or its instance cannot be loaded, or the code location does not have the job."""


class SavepointRunError(LakestateError):
    """A Dagster run for a savepoint failed, or cannot begin now."""


class AddressError(LakestateError):
    """An address is missing or invalid, or it contains a secret."""


class ProjectError(LakestateError):
    """A project cannot be written: its name or its folder is not suitable."""


__all__ = [
    "AddressError",
    "CodeLocationError",
    "JobMayRunError",
    "JobNotRunningError",
    "ProjectError",
    "SavepointRunError",
    "UnknownTriggerError",
]
