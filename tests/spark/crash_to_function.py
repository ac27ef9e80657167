"""A job with a function as its sink, for tests that kill its process:  crash_to_function.py FOLDER MODE"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import support
from pyspark import cloudpickle

from state_engine.api import CheckpointConfig, CheckpointingMode
from state_engine.spark import EpochId, ForeachEpochSink, StreamJob, local_session


def given_job(spark: Any, folder: Path, mode: CheckpointingMode) -> StreamJob:
    """Builds a count job; its sink function adds a line to `got.jsonl` for each call."""

    def write(epoch: EpochId, table: pa.Table) -> None:
        with (folder / "got.jsonl").open("a") as file:
            file.write(json.dumps({**epoch._asdict(), "rows": table.to_pylist()}) + "\n")

    config = CheckpointConfig().set_checkpointing_mode(mode)
    source = support.Input(folder / "in").stream(spark)
    return support.count_job(source, folder / "root", "given", ForeachEpochSink(write), checkpoint_config=config)


def main() -> None:
    cloudpickle.register_pickle_by_value(support)
    spark = local_session("crash-to-function", memory="1g")
    support.run_all(given_job(spark, Path(sys.argv[1]), CheckpointingMode[sys.argv[2]]))


if __name__ == "__main__":
    main()
