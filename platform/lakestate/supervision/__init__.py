"""Starts, watches and stops the driver processes of registered jobs on this machine."""

from lakestate.start_request import StartRequest
from lakestate.supervision.awaiting import await_start
from lakestate.supervision.heartbeat import HANGS_AFTER, Condition, Heartbeat, failure_of, look
from lakestate.supervision.log import LastWords, log_path, trim_log
from lakestate.supervision.places import NoControlFolderError, driver_folder
from lakestate.supervision.records import Attempt, Wanted, wanted_of
from lakestate.supervision.replacing import replace_driver
from lakestate.supervision.restarts import give_up, note_failure, restart_driver
from lakestate.supervision.start import DriverStartError, StartedDriver, driver_command, start_driver
from lakestate.supervision.stop import DriverNotEndedError, end_hanging, kill_driver, stop_driver, wanted_stopped

__all__ = [
    "HANGS_AFTER",
    "Attempt",
    "Condition",
    "DriverNotEndedError",
    "DriverStartError",
    "Heartbeat",
    "LastWords",
    "NoControlFolderError",
    "StartRequest",
    "StartedDriver",
    "Wanted",
    "await_start",
    "driver_command",
    "driver_folder",
    "end_hanging",
    "failure_of",
    "give_up",
    "kill_driver",
    "log_path",
    "look",
    "note_failure",
    "replace_driver",
    "restart_driver",
    "start_driver",
    "stop_driver",
    "trim_log",
    "wanted_of",
    "wanted_stopped",
]
