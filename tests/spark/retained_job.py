"""The tally job with a checkpoint in about every epoch, until a file stops it:  retained_job.py FOLDER"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import support
from pyspark import cloudpickle

from state_engine.spark import local_session


def main() -> None:
    folder = Path(sys.argv[1])
    cloudpickle.register_pickle_by_value(support)
    spark = local_session("retained-job", memory="1g")
    stream = support.Input(folder / "in").stream(spark)
    sinks = support.outputs(folder / "out")
    job = support.tally_job(stream, folder / "root", "retained", sinks, checkpoint_interval_ms=300)
    client = job.start(trigger_interval_ms=100)
    while not (folder / "stop").exists():
        if client.await_termination(0.2):
            raise SystemExit("The job has ended by itself.")
    client.stop()


if __name__ == "__main__":
    main()
