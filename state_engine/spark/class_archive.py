"""Writes an archive of Spark's classes, with which the JVM of a driver starts in two thirds of the time.

A driver loads thousands of classes before its first epoch ends: it reads, checks and links each of them. Java can keep
the result in a file (class data sharing), and maps it at the next start. The file belongs to one Java and to the jars
of one environment, so it is stored in that environment. Java itself compares, and does not use an archive of other
classes: then it starts as it does without one.

`python -m state_engine.spark.class_archive` writes it: a small job runs, and its JVM keeps the classes when it ends.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from state_engine.errors import LakestateError
from state_engine.spark.session.archive_options import QUIET, archive_file, archive_options


class ClassArchiveError(LakestateError):
    """The archive could not be written; starts take as long as before."""


def write_archive(archive: Path | None = None, timeout_s: float = 900) -> Path:
    """Runs a small job in another process and keeps the classes that it needed; returns the file (180 MiB).

    Raises:
        ClassArchiveError: The job failed, Java wrote nothing, or the folder cannot be written.
    """
    archive = archive or archive_file()
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".classes-", dir=archive.parent) as work:
            draft = Path(work) / archive.name
            process = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--job", work, str(draft)],
                stdin=subprocess.DEVNULL,
                capture_output=True,  # this also waits for the JVM, which outlives Python
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
            if process.returncode != 0 or not draft.exists():
                output = "; ".join((process.stderr or process.stdout).strip().splitlines()[-3:]) or "no output"
                raise ClassArchiveError(
                    f"Java wrote no archive of classes: {output}",
                    action="Nothing needs the archive, only starts take longer. It builds on an archive of Java's own: "
                    "if that is missing, `java -Xshare:dump` writes it.",
                )
            draft.replace(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClassArchiveError(
            f"{archive} was not written: {error}.", action="Nothing needs the archive, only starts take longer."
        ) from error
    return archive


def _run_job(folder: Path, archive: Path) -> None:
    """Does what drivers do: makes a session, runs an operator with state and a Delta sink, and reads its table."""
    from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
    from state_engine.spark.graph.sinks import DeltaSink
    from state_engine.spark.job import StreamJob
    from state_engine.spark.session.local import local_session, session_settings

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):  # type: ignore[no-untyped-def]
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

        def process_element(self, value, ctx):  # type: ignore[no-untyped-def]
            self.seen.update((self.seen.value() or 0) + 1)
            yield value.k, self.seen.value()

    (folder / "in").mkdir()
    (folder / "in" / "one.json").write_text('{"k": "a"}\n{"k": "b"}\n')
    name = "spark.driver.extraJavaOptions"
    options = session_settings()[name].removesuffix(archive_options())  # not on top of an existing archive
    spark = local_session("lakestate-classes", extra={name: f'{options} -XX:ArchiveClassesAtExit="{archive}" {QUIET}'})
    job = StreamJob("classes", root=str(folder / "state"), parallelism=2)
    source = job.from_stream(spark.readStream.schema("k string").json(str(folder / "in")))
    counts = source.key_by("k").process(Count(), "k string, n bigint", uid="count")
    counts.sink_to(DeltaSink(str(folder / "out")), uid="out")
    job.start(available_now=True).await_termination()
    spark.read.format("delta").load(str(folder / "out")).collect()
    spark.stop()


def main() -> int:
    """Writes the archive and prints its path; the entry of `python -m state_engine.spark.class_archive`."""
    if sys.argv[1:2] == ["--job"]:
        _run_job(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    try:
        print(write_archive())
    except ClassArchiveError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


__all__ = ["ClassArchiveError", "write_archive"]

if __name__ == "__main__":
    sys.exit(main())
