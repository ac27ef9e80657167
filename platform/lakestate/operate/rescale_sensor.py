"""Proposes another parallelism for a stream that lags or idles, or rescales it.

The measurements of the last looks are stored in the cursor: they are not events, and their loss costs only time.
"""

import time
from datetime import datetime
from typing import Any

import dagster as dg
import msgspec

from lakestate.assets.names import dagster_name, rescaled_state_key, run_tags
from lakestate.assets.rescaled_state import REASON
from lakestate.operate.unfinished_runs import unfinished_runs
from lakestate.policies.rescale import RescaleLook, RescalePolicy
from lakestate.resources import RestClientResource, StateStoreResource
from state_engine.errors import LakestateError
from state_engine.inspect import status_of
from state_engine.text import UNDECODABLE


class Sample(msgspec.Struct, frozen=True):
    """One look: its time, the total time in epochs since the process started, subtasks, key groups, lags."""

    at_ms: int
    epoch_seconds: float
    parallelism: int
    max_parallelism: int
    lag_ms: int | None
    source_lag: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """The newest looks at one process, oldest first, and the parallelism that was proposed last."""

    incarnation: str = ""
    samples: tuple[Sample, ...] = ()
    proposed: int | None = None

    def with_look(self, incarnation: str, sample: Sample, kept: int) -> "Memory":
        """Returns a copy with one more look; it drops looks at another process or at another parallelism."""
        samples = self.samples if incarnation == self.incarnation else ()
        same = samples if samples and samples[-1].parallelism == sample.parallelism else ()
        proposed = self.proposed if same else None
        return Memory(incarnation, (*same, sample)[-kept:], proposed)

    def looks(self, window: int) -> list[RescaleLook]:
        """Returns the looks for a policy. Busy time is measured over `window` looks, since epochs can outlast one."""
        return [
            RescaleLook(
                at_ms=sample.at_ms,
                parallelism=sample.parallelism,
                max_parallelism=sample.max_parallelism,
                busy=_busy(self.samples[max(0, number - window)], sample),
                lag_ms=sample.lag_ms,
                source_lag=sample.source_lag,
            )
            for number, sample in enumerate(self.samples)
        ]


def build_rescale_sensor(job: str, policy: RescalePolicy, *, key: dg.AssetKey | None = None) -> dg.SensorDefinition:
    """Returns the sensor that watches the lag of a stream, and proposes or requests runs of `<job>/rescaled_state`.

    Args:
        job: Name of the job.
        policy: When the stream gets another parallelism.
        key: Key of the asset; by default `<job>/rescaled_state`.
    """
    key = key or rescaled_state_key(job)

    @dg.sensor(
        name=f"{dagster_name(job)}_rescale",
        target=dg.AssetSelection.assets(key),
        minimum_interval_seconds=max(1, round(policy.look_every.total_seconds())),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Watches the lag of the stream `{job}`. If it lags or idles, "
        + (
            f"a run of `{job}/rescaled_state` is launched."
            if policy.action == "act"
            else f"an observation of `{job}/rescaled_state` proposes another parallelism; it never rescales by itself."
        ),
    )
    def watch_lag(
        context: dg.SensorEvaluationContext, state_store: StateStoreResource, rest_client: RestClientResource
    ) -> dg.SensorResult:
        memory = memory_of(context.cursor)
        try:
            incarnation = rest_client.incarnation(job)
            status = status_of(state_store.open_job(job))
        except LakestateError as error:
            return dg.SensorResult(cursor=_cursor(Memory()), skip_reason=f"{type(error).__name__}: {error.message}")
        widest = max(status.operators, key=lambda operator: operator.parallelism)
        lags = [one.event_time_lag_ms for one in status.operators if one.event_time_lag_ms is not None]
        sample = Sample(
            at_ms=round(time.time() * 1000),
            epoch_seconds=incarnation.epoch_seconds,
            parallelism=widest.parallelism,
            max_parallelism=widest.max_parallelism,
            lag_ms=max(lags, default=None),
            source_lag=incarnation.source_lag_records,
        )
        memory = memory.with_look(incarnation.incarnation, sample, 2 * policy.looks)
        decision = policy.decide(memory.looks(policy.looks), _rescaled_at_ms(context.instance, key))
        if decision.parallelism is None:
            return dg.SensorResult(cursor=_cursor(memory), skip_reason=decision.reason)
        text = f"{decision.reason} It should have {decision.parallelism}."
        if memory.proposed == decision.parallelism:
            return dg.SensorResult(cursor=_cursor(memory), skip_reason=f"{text} This was proposed before.")
        # Such a run changes what this look has measured: looks after the run decide what is right then.
        if under_way := unfinished_runs(context.instance, key):
            waits = f"Run {under_way[0].run_id} is rescaling it, or is going to."
            return dg.SensorResult(cursor=_cursor(memory), skip_reason=waits)
        proposed = _cursor(msgspec.structs.replace(memory, proposed=decision.parallelism))
        if policy.action == "act":
            return dg.SensorResult(
                cursor=proposed, run_requests=[_request(job, key, decision.parallelism, text, sample)]
            )
        event = dg.AssetObservation(key, text, metadata={"proposed_parallelism": decision.parallelism, REASON: text})
        return dg.SensorResult(cursor=proposed, asset_events=[event], skip_reason=f"Proposal: {text}")

    return watch_lag


def memory_of(cursor: str | None) -> Memory:
    """Returns the memory in a cursor; an empty one if the cursor contains anything else."""
    try:
        return msgspec.json.decode(cursor or "{}", type=Memory)
    except UNDECODABLE:
        return Memory()


def _cursor(memory: Memory) -> str:
    return msgspec.json.encode(memory).decode()


def _busy(before: Sample, sample: Sample) -> float | None:
    seconds = (sample.at_ms - before.at_ms) / 1000
    return min(1.0, max(0.0, (sample.epoch_seconds - before.epoch_seconds) / seconds)) if seconds > 0 else None


def _request(job: str, key: dg.AssetKey, parallelism: int, reason: str, sample: Sample) -> dg.RunRequest:
    op = rescaled_state_key(job).to_python_identifier()  # a translated key does not rename the op
    config: dict[str, Any] = {"parallelism": parallelism, "reason": reason}
    return dg.RunRequest(
        run_key=f"{job} {sample.parallelism} to {parallelism} at {datetime.fromtimestamp(sample.at_ms / 1000)}",
        asset_selection=[key],
        run_config={"ops": {op: {"config": config}}},
        tags=run_tags(job),
    )


def _rescaled_at_ms(instance: dg.DagsterInstance, key: dg.AssetKey) -> int | None:
    records = instance.fetch_materializations(key, limit=1).records
    return round(records[0].timestamp * 1000) if records else None


__all__ = ["Memory", "Sample", "build_rescale_sensor", "memory_of"]
