"""A job that waits for input while its session is stopped or its JVM is killed: `lost_session.py FOLDER HOW`.

Prints the type of the exception that `await_termination` raised, and the job's state.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from support import COLUMNS, outputs, tally_job

from state_engine.spark import local_session

folder, how = Path(sys.argv[1]), sys.argv[2]
(folder / "in").mkdir()
spark = local_session("lost")
client = tally_job(
    spark.readStream.schema(COLUMNS).parquet(str(folder / "in")), folder / "root", "lost", outputs(folder / "out"), 2
).start()
raised: list[BaseException] = []


def wait() -> None:
    try:
        client.await_termination()
    except Exception as error:
        raised.append(error)


waiting = threading.Thread(target=wait, daemon=True)
waiting.start()
if how == "stop":
    spark.stop()
else:
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
waiting.join(60)
print(type(raised[0]).__name__ if raised else "it still waits", client.state, flush=True)
