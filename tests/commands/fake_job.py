"""A runner without an engine: emits the events that its options say.

    fake_job.py JOB --root ROOT --option plan=… [--restore …] [--parallelism …] [--available-now] [--cores …]

`plan` is one of: finish, fail-ERROR, die, wait (until it is asked to stop), deaf (it cannot be stopped).
"""

import os
import signal
import sys
import time

from lakestate.runner_events import CheckpointCompleted, EpochSealed, Failed, Finished, Started, encode_event


def tell(event) -> None:
    sys.stdout.buffer.write(encode_event(event))
    sys.stdout.buffer.flush()


def main() -> None:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    plan = next(one for one in sys.argv if one.startswith("plan=")).removeprefix("plan=")
    print("arguments:", *sys.argv[1:], file=sys.stderr)
    tell(Started(job=sys.argv[1], generation=2, epoch=7))
    tell(EpochSealed(epoch=8, records=1200, seconds=0.5, keys=10, state_rows=30, spark_jobs=1))
    tell(CheckpointCompleted(checkpoint_id=3, epoch=8))
    tell(EpochSealed(epoch=9, records=0, seconds=0.0, keys=10, state_rows=30, spark_jobs=2))
    if plan.startswith("fail-"):
        tell(Failed(error=plan.removeprefix("fail-"), message="No such thing.", action="Name another."))
        sys.exit(1)
    if plan == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    while plan == "deaf" or (plan == "wait" and not stopping):
        time.sleep(0.01)
    tell(Finished(stopped=bool(stopping), epoch=9, spark_jobs=2))


main()
