"""How a stream is to be operated, and the decisions that follow from it. Pure: no Dagster, no I/O, no clock."""

from lakestate.policies.limits import CheckLimits
from lakestate.policies.rescale import RescalePolicy
from lakestate.policies.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartPolicy
from lakestate.policies.retention import StreamRetention
from lakestate.policies.savepoints import SavepointPolicy
from lakestate.policies.stream import StreamPolicies

__all__ = [
    "CheckLimits",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "NoRestart",
    "RescalePolicy",
    "RestartPolicy",
    "SavepointPolicy",
    "StreamPolicies",
    "StreamRetention",
]
