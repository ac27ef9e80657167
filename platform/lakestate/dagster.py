"""Everything that a Dagster project imports from Lakestate.

`import lakestate` does not import Dagster; this module does. It is also the module that Dagster's command `dg` lists.
"""

from state_engine.extras import from_extra

with from_extra("dagster"):
    from lakestate.assets.names import savepoint_partitions
    from lakestate.assets.stream_plan import StreamPlan, read_plan
    from lakestate.assets.translation import (
        StreamAsset,
        StreamTranslator,
        asset_key_for_checkpoint,
        asset_key_for_restored_state,
        asset_key_for_savepoint,
        asset_key_for_sink,
        asset_key_for_source,
        asset_key_for_state,
    )
    from lakestate.policies import (
        CheckLimits,
        ExponentialDelay,
        FailureRate,
        FixedDelay,
        NoRestart,
        RescalePolicy,
        SavepointPolicy,
        StreamPolicies,
        StreamRetention,
    )
    from lakestate.resources import JobControlResource, RestClientResource, SparkSessionResource, StateStoreResource
    from lakestate.stream_component import StreamJobComponent
    from lakestate.stream_definitions import build_stream_definitions
    from lakestate.stream_root_component import StreamRootComponent

__all__ = [
    "CheckLimits",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "JobControlResource",
    "NoRestart",
    "RescalePolicy",
    "RestClientResource",
    "SavepointPolicy",
    "SparkSessionResource",
    "StateStoreResource",
    "StreamAsset",
    "StreamJobComponent",
    "StreamPlan",
    "StreamPolicies",
    "StreamRetention",
    "StreamRootComponent",
    "StreamTranslator",
    "asset_key_for_checkpoint",
    "asset_key_for_restored_state",
    "asset_key_for_savepoint",
    "asset_key_for_sink",
    "asset_key_for_source",
    "asset_key_for_state",
    "build_stream_definitions",
    "read_plan",
    "savepoint_partitions",
]
