"""The streaming workloads: the records and the expected results of each. No engine is imported here."""

from benchmarks.workloads.map_and_list import MAP_AND_LIST_WORKLOAD
from benchmarks.workloads.running_count import RUNNING_COUNT_WORKLOAD, TTL_WORKLOAD
from benchmarks.workloads.sessions import SESSIONS_WORKLOAD
from benchmarks.workloads.windows import WINDOWS_WORKLOAD

WORKLOADS = {
    workload.name: workload
    for workload in (RUNNING_COUNT_WORKLOAD, MAP_AND_LIST_WORKLOAD, TTL_WORKLOAD, SESSIONS_WORKLOAD, WINDOWS_WORKLOAD)
}
"""By name on the command line."""
