"""A driver of `failover`, until it is killed or told to stop: `python -m benchmarks.failover.child <case.json>`.

After its first start it takes a checkpoint, so that later ones load state from a base, as those of an old job do.
"""

import signal
import sys
import threading
import time
from pathlib import Path

import msgspec

from benchmarks.failover.model import FailoverCase
from benchmarks.latency.streams import session_for, start

READY = "ready"
_PATIENCE_S = 1_800.0


def main(path: str) -> None:
    """Runs the stream of a case."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    case = msgspec.json.decode(Path(path).read_bytes(), type=FailoverCase)
    work = Path(case.work)
    running = start(case.engine, work, session := session_for(case.engine, work))
    ready, deadline = work / READY, time.monotonic() + _PATIENCE_S
    while not told.wait(0.1):
        if (failure := running.query.exception()) is not None:
            raise failure
        if ready.exists():
            continue
        if sum(progress["numInputRows"] for progress in running.query.recentProgress) >= case.keys:
            if running.client is not None:
                running.client.trigger_checkpoint().result(_PATIENCE_S)
            ready.touch()
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{case.keys} records were not read")
    running.stop()
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
