"""The process from which Spark forks its Python workers, with our imports done once for all of them.

A worker that imports pyarrow, pandas and the task runner by itself needs a second or more before its first record;
forked workers also share that memory. Spark runs this module in place of `pyspark.daemon`
(`spark.python.daemon.module`).
"""

import pandas as _pandas  # noqa: F401  # pyarrow loads it with the first array
from pyspark import daemon

import state_engine.spark.task as _task  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
