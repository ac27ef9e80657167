"""Errors of `lakestate up` and `lakestate down`: what can be wrong with the machine or the folder."""

from state_engine.errors import LakestateError


class MissingJavaError(LakestateError):
    """There is no Java that runs."""


class DiskFullError(LakestateError):
    """The disk has too little free space."""


class ForeignFolderError(LakestateError):
    """The folder contains files that `lakestate up` has not made, or cannot contain the files that it makes."""


class PortInUseError(LakestateError):
    """Another process already listens on the port."""


class BusyError(LakestateError):
    """Another `lakestate up` or `lakestate down` is running in the same folder."""


class NotUpError(LakestateError):
    """A process or a stream did not become ready."""


class StillUpError(LakestateError):
    """A process that was told to end has not ended."""


__all__ = [
    "BusyError",
    "DiskFullError",
    "ForeignFolderError",
    "MissingJavaError",
    "NotUpError",
    "PortInUseError",
    "StillUpError",
]
