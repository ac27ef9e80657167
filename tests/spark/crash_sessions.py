"""Sessions by event-time timers in a process of its own, for tests that kill it:  crash_sessions.py FOLDER"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import test_event_time
from pyspark import cloudpickle

from state_engine.spark import DeltaSink, StreamJob, local_session


def main() -> None:
    folder = Path(sys.argv[1])
    cloudpickle.register_pickle_by_value(test_event_time)
    spark = local_session("crash-sessions", memory="1g")
    job = StreamJob("sessions", root=str(folder / "root"), parallelism=2, checkpoint_interval_ms=10)
    stream = test_event_time.Files(folder / "in").stream(spark)
    timed = job.from_stream(stream, bounded=len(sys.argv) > 2).assign_timestamps_and_watermarks(
        test_event_time.bounded()
    )
    closed = timed.key_by("k", order_by=["v"]).process(test_event_time.Sessions(), test_event_time.SESSIONS, uid="one")
    closed.sink_to(DeltaSink(str(folder / "out")), uid="out")
    client = job.start(available_now=True)
    assert client.await_termination(120)


if __name__ == "__main__":
    main()
