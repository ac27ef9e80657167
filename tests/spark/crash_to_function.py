"""A job with a function for a sink, for tests that kill its process:  crash_to_function.py FOLDER MODE"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import support
from pyspark import cloudpickle

from state_engine.api import CheckpointConfig, CheckpointingMode
from state_engine.spark import EpochId, ForeachEpochSink, local_session


def main() -> None:
    folder, mode = Path(sys.argv[1]), CheckpointingMode[sys.argv[2]]
    cloudpickle.register_pickle_by_value(support)

    def write(epoch: EpochId, table: pa.Table) -> None:
        with (folder / "got.jsonl").open("a") as file:
            file.write(json.dumps({**epoch._asdict(), "rows": table.to_pylist()}) + "\n")

    config = CheckpointConfig().set_checkpointing_mode(mode)
    source = support.Input(folder / "in").stream(local_session("crash-to-function", memory="1g"))
    job = support.count_job(source, folder / "root", "given", ForeachEpochSink(write), checkpoint_config=config)
    support.run_all(job)


if __name__ == "__main__":
    main()
