"""What can be wrong with a machine, or a folder, that everything is to be brought up on."""

from state_engine.errors import LakestateError


class MissingJavaError(LakestateError):
    """There is no Java that runs."""


class MissingPackageError(LakestateError):
    """A package that the examples need is not installed."""


class DiskFullError(LakestateError):
    """The disk has no room for what would be written."""


class ForeignFolderError(LakestateError):
    """The folder holds something that `lakestate up` has not made, or cannot hold what it makes."""


class PortInUseError(LakestateError):
    """Somebody listens on the port already."""


class BusyError(LakestateError):
    """Another `lakestate up` or `lakestate down` is at work in the same folder."""


class NotUpError(LakestateError):
    """Something did not come up."""


class StillUpError(LakestateError):
    """A process that was told to end has not."""


__all__ = [
    "BusyError",
    "DiskFullError",
    "ForeignFolderError",
    "MissingJavaError",
    "MissingPackageError",
    "NotUpError",
    "PortInUseError",
    "StillUpError",
]
