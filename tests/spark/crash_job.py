"""The tally job in a process of its own, for tests that kill it:  crash_job.py FOLDER [--help]"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import support
from pyspark import cloudpickle

from state_engine.spark import local_session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--restore")
    parser.add_argument("--parallelism", type=int)
    arguments = parser.parse_args()
    cloudpickle.register_pickle_by_value(support)
    spark = local_session("crash-job", memory="1g")
    source = support.Input(arguments.folder / "in")
    job = support.tally_job(
        source.stream(spark),
        arguments.folder / "root",
        "crash",
        support.outputs(arguments.folder / "out"),
        checkpoint_interval_ms=1,
    )
    support.run_all(job, restore=arguments.restore, parallelism=arguments.parallelism)


if __name__ == "__main__":
    main()
