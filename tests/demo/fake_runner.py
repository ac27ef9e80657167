"""A runner without an engine: counts epochs in a file, sends events, and kills itself at a crash point.

    fake_runner.py JOB --root ROOT --option … [--restore EPOCH] [--parallelism N] [--available-now]

A savepoint's id is the epoch to which a restore goes back. Input ends with epoch 40. With FAKE_FAILS set it fails.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lakestate.runner_events import EpochSealed, Failed, Finished, Started, encode_event
from lakestate.runner_process import CRASH_AT

LAST = 40


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--option", action="append")
    parser.add_argument("--restore", type=int)
    parser.add_argument("--parallelism", type=int)
    parser.add_argument("--available-now", action="store_true")
    args = parser.parse_args()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    out = sys.stdout.buffer
    # In place of the JVM: it outlives the driver unless its process group is ended.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    args.root.mkdir(parents=True, exist_ok=True)
    with (args.root / "children").open("a") as children:
        children.write(f"{child.pid}\n")

    crash_epoch = int(os.environ.get(CRASH_AT, "x@0").split("@")[1])
    newest = args.root / "newest"
    epoch = args.restore or (int(newest.read_text()) if newest.exists() else 0)
    epoch += 1  # the claim
    out.write(encode_event(Started(job=args.job, generation=1, epoch=epoch)))
    if "FAKE_FAILS" in os.environ:
        out.write(encode_event(Failed(error="FencedError", message="Another.", action="Wait.")))
        out.flush()
        sys.exit(1)
    while not stopping:
        newest.write_text(str(epoch))
        if epoch == LAST:
            if args.available_now:
                break
            time.sleep(0.01)
            continue
        epoch += 1
        if epoch == crash_epoch:
            os.kill(os.getpid(), signal.SIGKILL)
        out.write(b"this is no event\n")
        out.write(
            encode_event(EpochSealed(epoch=epoch, records=9, seconds=0.1, keys=1, state_rows=2, spark_jobs=epoch))
        )
        out.flush()
        time.sleep(0.02)
    out.write(encode_event(Finished(stopped=bool(stopping), epoch=epoch, spark_jobs=epoch)))
    out.flush()
    child.kill()


main()
