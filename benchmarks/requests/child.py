"""Runs `requests` at one size in its own process: `python -m benchmarks.requests.child <case.json>`."""

import os
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.engines.spark import MEMORY
from benchmarks.latency.functions import Count
from benchmarks.requests.model import DOLLARS, ROW, Phase, RequestCase, RequestRow
from state_engine.spark import DeltaSink, JobClient, StreamJob, local_session
from state_engine.testing.s3_server import S3Server, s3_server

JOB, BUCKET = "requests", "bucket"
TABLE = f"s3://{BUCKET}/table"
WAIT_S = 300.0


class Measurement:
    """A stream over a bucket, and the requests of its phases.

    Args:
        case: What to run.
        server: Where the bucket is.
    """

    def __init__(self, case: RequestCase, server: S3Server) -> None:
        self._case, self._server = case, server
        self._input = Path(case.work) / "in"
        self._input.mkdir()
        self._files, self._seen = 0, 0
        self.sent: dict[Phase, dict[str, float]] = {}

    def run(self) -> bool:
        """Runs all phases; returns whether the table is right."""
        self._forget()
        client = self._start()
        self._note("start")
        self._feed(client, 2)
        self._forget()
        self._feed(client, self._case.epochs)
        self._note("epoch", self._case.epochs)
        client.trigger_checkpoint().result(WAIT_S)
        self._feed(client, self._case.epochs - 1)
        self._forget()
        client.trigger_checkpoint().result(WAIT_S)
        self._note("checkpoint")
        client.stop()
        rows = DeltaTable(TABLE).to_pyarrow_table()
        found = Counter(zip(rows.column("k").to_pylist(), rows.column("n").to_pylist(), strict=True))
        return found == Counter((k, n) for k in range(self._case.records) for n in range(1, self._files + 1))

    def _start(self) -> JobClient:
        spark = local_session(
            "benchmark-requests", "2", memory=MEMORY, extra={"spark.local.dir": str(Path(self._case.work) / "local")}
        )
        stream = spark.readStream.schema("k bigint, file bigint").option("maxFilesPerTrigger", 1)
        job = StreamJob(
            JOB, root=f"s3://{BUCKET}/state", parallelism=self._case.subtasks,
            spark_directory=str(Path(self._case.work) / "spark"),
            data_inline_threshold=20 * 1024 if self._case.inlined else 0,
        )  # fmt: skip
        counts = job.from_stream(stream.parquet(str(self._input))).key_by("k")
        counts.process(Count(), "k bigint, n bigint, file bigint", uid="count").sink_to(DeltaSink(TABLE), uid="out")
        return job.start()

    def _feed(self, client: JobClient, files: int) -> None:
        """Adds files, of which each becomes an epoch, and waits until they are sealed and in the table."""
        keys = pa.array(range(self._case.records))
        for _ in range(files):
            table = pa.table([keys, pa.array([self._files] * self._case.records)], names=["k", "file"])
            pq.write_table(table, self._input / f".f{self._files:06d}")
            os.rename(self._input / f".f{self._files:06d}", self._input / f"f{self._files:06d}.parquet")
            self._files += 1
        until = time.monotonic() + WAIT_S
        while sum(epoch.records for epoch in client.epochs) < self._files * self._case.records:
            if client.exception is not None:
                raise client.exception
            if time.monotonic() > until:
                raise TimeoutError(f"The stream has not read {self._files} files.")
            time.sleep(0.02)
        time.sleep(0.5)  # the last commit of the sink may still be under way

    def _forget(self) -> None:
        self._seen = len(self._server.requests(BUCKET))

    def _note(self, phase: Phase, times: int = 1) -> None:
        kinds = Counter(request.kind for request in self._server.requests(BUCKET)[self._seen :])
        self.sent[phase] = {kind: kinds[kind] / times for kind in DOLLARS}


def main(path: str) -> None:
    """Runs a case and writes its rows to its folder."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=RequestCase)
    with s3_server() as server:
        os.environ.update(server.environment())
        server.make_bucket(BUCKET)
        measurement = Measurement(case, server)
        right = measurement.run()
    rows = [
        RequestRow(
            phase=phase,
            subtasks=case.subtasks,
            changes="inlined" if case.inlined else "files",
            epochs=case.epochs if phase == "checkpoint" else 1,
            put=round(sent["PUT"], 2),
            get=round(sent["GET"], 2),
            head=round(sent["HEAD"], 2),
            list=round(sent["LIST"], 2),
            delete=round(sent["DELETE"], 2),
            dollars=sum(sent[kind] * cost for kind, cost in DOLLARS.items()),
            results_equal=right,
        )
        for phase, sent in measurement.sent.items()
    ]
    (Path(case.work) / ROW).write_bytes(msgspec.json.encode(rows))


if __name__ == "__main__":
    main(sys.argv[1])
