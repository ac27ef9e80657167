"""Writes the golden root of a release: `python tests/golden/make_root.py 0.1.0`, once, with the code of that release.

It runs the jobs of `root_job.py` as a user would, on Spark: several starts at other parallelisms on both backends,
checkpoints, both savepoints, a restore that retracts output, retention. What is then below the root goes into
`roots/<version>.tar.xz`, but for caches (`_spark`, databases) and addresses of processes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import root_job
from packaging.version import Version
from pyspark import cloudpickle
from root_archive import archive_of, pack
from root_rows import write_rows

import state_engine
from lakestate.start_request import StartRequest
from lakestate.supervision.places import driver_folder
from lakestate.supervision.records import Wanted, WantedFile
from state_engine.api import CheckpointConfig, EmbeddedRocksDBStateBackend, FileSystemCheckpointStorage, Types
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.clock import SystemClock
from state_engine.inspect import open_job, reading
from state_engine.savepoint import restore_key_groups, retain, trigger_savepoint
from state_engine.spark.session.local import local_session


class Later(SystemClock):
    """A clock that is a quarter of an hour ahead, so that retention deletes what it has condemned."""

    def now_ms(self) -> int:
        return super().now_ms() + 900_000


def run(job: Any, **options: Any) -> None:
    print(f"{datetime.now():%H:%M:%S} start of {job.name} {options or ''}", flush=True)
    client = job.start(available_now=True, **options)
    if not client.await_termination(600):
        raise SystemExit(f"Job {job.name} did not end.")


@contextmanager
def written(spark: Any, folder: Path) -> Iterator[None]:
    """Writes the root; while it is packed, a reader holds a lease."""
    root, name = str(folder / "state"), root_job.NAME
    rocksdb = EmbeddedRocksDBStateBackend()
    rocksdb.set_db_storage_paths(str(folder / "db"))

    def job(**options: Any) -> Any:
        return root_job.golden_job(spark, folder, **options)

    for file in (0, 1):  # two checkpoints, the second one incremental; changes in files
        root_job.add_file(folder / "in", file)
        run(job(checkpoint_interval_ms=10, data_inline_threshold=0))
    files = CheckpointConfig()
    files.set_checkpoint_storage(FileSystemCheckpointStorage(None, file_state_size_threshold=1024))
    files.set_checkpoint_interval(10)
    run(root_job.filed_job(spark, folder, type_of_count=Types.INT(), checkpoint_config=files))
    policy = RetentionPolicy(checkpoints=Keep(last=1))
    retain(root, name, policy)
    retain(root, name, policy, clock=Later())  # a floor
    native = trigger_savepoint(root, name, label="native", note="after two files")
    root_job.add_file(folder / "in", 2)
    run(job())  # its output is retracted by the restore; its epoch stays in the abandoned generation
    root_job.add_file(folder / "in", 3)
    restored = job(checkpoint_interval_ms=10, state_backend=rocksdb)
    run(restored, restore=native.savepoint_id, parallelism=3)
    trigger_savepoint(root, name, kind="canonical", label="canonical", note="after four files")
    root_job.add_file(folder / "in", 4)
    run(job(state_backend=rocksdb, parallelism=3))  # small changes, in manifests, after the newest checkpoint
    retain(root, name, policy)  # a list of condemned files

    run(root_job.filed_job(spark, folder, checkpoint_config=files))
    restore_key_groups(root, root_job.FILED, "latest", uids=["count"], keys=["ann", None])
    source = trigger_savepoint(root, root_job.FILED, label="for a fork")
    run(root_job.filed_job(spark, folder, root_job.FORK), restore=f"{root_job.FILED}/{source.savepoint_id}")
    wanted = WantedFile(driver_folder(root, name))
    wanted.write(Wanted(state="stopped", since=1_700_000_000_000, request=StartRequest(parallelism=2, directory="/")))
    with reading(root, name, purpose="golden root"):
        yield


def is_durable(name: str) -> bool:
    """Returns whether a file is part of the root: caches and control files are not, but for what is wanted of a job."""
    parts = name.split("/")
    if "_control" in parts:
        return parts[-1] == "wanted.json"
    return parts[0] != "db" and "_spark" not in parts


def described(folder: Path) -> str:
    """Returns what was written, for the person who keeps it."""
    lines = []
    for name in (root_job.NAME, root_job.FILED, root_job.FORK):
        job = open_job(str(folder / "state"), name)
        lines += [f"{name}: {len(job.epochs(100))} manifests"]
        lines += [f"  savepoint {saved.label}: epoch {saved.epoch}, {saved.rows} rows" for saved in job.savepoints()]
        lines += [
            f"  checkpoint {row.checkpoint_id}: {row.status}, {row.type}, epoch {row.generation}/{row.epoch}, "
            f"{len(row.states)} states, {row.rows} rows"
            for row in job.checkpoints()
        ]
    return "\n".join(lines)


def main(version: str) -> None:
    release = Version(state_engine.__version__).base_version
    archive = archive_of(version)
    if version != release:
        raise SystemExit(f"This code is {release}, so it cannot write the root of {version}: check out that release.")
    if archive.exists():
        raise SystemExit(f"{archive} exists, and a golden root is never written anew.")
    cloudpickle.register_pickle_by_value(root_job)  # workers cannot import it
    spark = local_session("golden-root")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with written(spark, folder):
            print(described(folder))
            write_rows(folder)
            pack(folder, archive, is_durable)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: make golden-root VERSION=0.2.0")
    main(sys.argv[1])
