"""Finds registered jobs by name: ours, and those that other distributions register as entry points.

The entry point group is `lakestate.jobs`:

    [project.entry-points."lakestate.jobs"]
    invoices = "shop.jobs.invoices:build"

The project in the working directory need not be installed: the group is read from its `pyproject.toml`.

A factory takes the Spark session, the folder of the job's state and the options of the command line, and returns the
job, not started.
"""

import functools
import importlib.metadata
import importlib.util
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from state_engine.errors import JobDefinitionError

GROUP = "lakestate.jobs"

JobFactory = Callable[[Any, str, Mapping[str, str]], Any]
"""(SparkSession, root, options) to StreamJob. Untyped, so that naming jobs does not import Spark."""


class AnyOption(dict[str, str]):
    """Options with a value for every name, since the place of a folder does not change what a job is made of.

    Each missing value is an absolute path, so that a plan does not contain the working directory of the process that
    made it.
    """

    def __missing__(self, name: str) -> str:
        return f"/<{name}>"

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the option, or its default; but not a default that says where this checkout is."""
        is_place = isinstance(default, str) and Path(default).is_absolute()
        return self[name] if name in self or is_place else default


ANY_ROOT = "/<root>"
"""Placeholder for the state root where its value does not matter, as `AnyOption` is for options."""


class MissingOptionError(JobDefinitionError, KeyError):
    """A job's factory read an option that was not given."""


class GivenOptions(dict[str, str]):
    """The options that a job was given; reading any other one is a `MissingOptionError`."""

    def __init__(self, job: str, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._job = job

    def __missing__(self, name: str) -> str:
        raise MissingOptionError(
            f"Job {self._job!r} needs the option {name!r}; options given: {', '.join(sorted(self)) or 'none'}.",
            action=f"Give it: `-o {name}=…` on the command line, `options` of the job in Dagster.",
        )


_BUILT_IN = {
    "flights": "lakestate.examples.flights.job:build",
    "fraud": "lakestate.examples.fraud.job:build",
    "orders": "lakestate.examples.orders.job:build",
    "visits": "lakestate.examples.visits.job:build",
}


def registered_jobs() -> dict[str, importlib.metadata.EntryPoint]:
    """Returns all registered jobs by name; nothing is imported.

    Raises:
        JobDefinitionError: One name is registered twice, or the `pyproject.toml` of the working directory is not valid.
    """
    jobs = {name: importlib.metadata.EntryPoint(name, value, GROUP) for name, value in _BUILT_IN.items()}
    for entry in [*importlib.metadata.entry_points(group=GROUP), *_jobs_of_project()]:
        registered = jobs.setdefault(entry.name, entry)
        if registered.value != entry.value:
            raise JobDefinitionError(
                f"Job {entry.name!r} is registered twice: {registered.value} and {entry.value}.",
                action=f"Rename one of them in the entry points of group {GROUP}.",
            )
    return jobs


def _jobs_of_project() -> list[importlib.metadata.EntryPoint]:
    """Returns the jobs that the project in the working directory would register if it was installed."""
    file = Path("pyproject.toml")
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except FileNotFoundError:  # also if the working directory was removed
        return []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise JobDefinitionError(f"{file.absolute()} cannot be read: {error}.", action="Correct it.") from error
    registered = project.get("entry-points", {}).get(GROUP, {})
    return [importlib.metadata.EntryPoint(name, value, GROUP) for name, value in registered.items()]


def _import_from_project() -> None:
    """Lets modules of the working directory be imported, as `python -m` does, if it has a project with jobs."""
    if _jobs_of_project() and (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)


def find_job(name: str) -> importlib.metadata.EntryPoint:
    """Returns the entry point of a registered job's factory; nothing is imported.

    Raises:
        JobDefinitionError: No job of this name is registered.
    """
    jobs = registered_jobs()
    if name not in jobs:
        raise JobDefinitionError(
            f"No job is registered as {name!r}. Registered jobs: {', '.join(sorted(jobs))}.",
            action=f"Check the name, or register the job under the entry point group {GROUP}.",
        )
    return jobs[name]


def load_job(name: str) -> JobFactory:
    """Returns the factory of a registered job, wrapped so that it raises if it returns anything but that job.

    Raises:
        JobDefinitionError: No job of this name is registered, or its factory cannot be imported.
    """
    entry = find_job(name)
    _import_from_project()
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as error:
        raise JobDefinitionError(
            f"Job {name!r} is registered as {entry.value}, which cannot be imported: {error}.",
            action="Correct the entry point, or install what it imports.",
        ) from error
    if not callable(factory):
        raise JobDefinitionError(
            f"Job {name!r} is registered as {entry.value}, which is not a function.",
            action="Register a function of (spark, root, options) that returns the job.",
        )

    @functools.wraps(factory)  # with what the factory says of itself, such as the connectors that it needs
    def build(spark: Any, root: str, options: Mapping[str, str]) -> Any:
        named_options = options if isinstance(options, AnyOption) else GivenOptions(name, options)
        return _checked(name, entry.value, factory(spark, root, named_options))

    return build


def build_dry(name: str, root: str = ANY_ROOT, options: Mapping[str, str] | None = None) -> Any:
    """Builds a registered job without Spark, to find out its operators, states, sources and sinks.

    What its code prints goes to standard error, since the answer of the command goes to standard output.

    Args:
        name: Of the job.
        root: Of the storage.
        options: For its factory; a missing one gets a placeholder.

    Raises:
        NeedsSparkError: Only Spark can tell what the job is made of.
        JobDefinitionError: No job of this name is registered, or its factory cannot be imported or returns no such job.
    """
    from state_engine.spark.graph.dry import DrySession

    factory = load_job(name)
    with redirect_stdout(sys.stderr):
        return factory(DrySession(), root, AnyOption(options or {}))


def _checked(name: str, value: str, built: Any) -> Any:
    from state_engine.spark.job import StreamJob

    if not isinstance(built, StreamJob):
        raise JobDefinitionError(
            f"The factory of job {name!r}, {value}, returned {'None' if built is None else type(built).__name__}, "
            "not a StreamJob.",
            action="End the function with `return job`; it must not start the job.",
        )
    if built.name != name:
        raise JobDefinitionError(
            f"{value} is registered as {name!r}, but it builds the job {built.name!r}.",
            action=f"Use one name for both: {name!r} as entry point and in StreamJob(…). The folder with the job's "
            "state has this name.",
        )
    return built


def find_plan(name: str) -> bytes | None:
    """Returns the plan of a registered job from `<module>.plan.json` beside its module; null without that file.

    Nothing is imported. The plan is what `lakestate explain <job> --json` prints. It describes the job for callers that
    may not import it.

    Raises:
        JobDefinitionError: No job of this name is registered.
    """
    top, *rest = find_job(name).module.split(".")
    _import_from_project()
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    folders = spec.submodule_search_locations or [str(Path(spec.origin or "").parent)]
    file = f"{'/'.join(rest) or top}.plan.json"
    path = next((Path(folder, file) for folder in folders if Path(folder, file).is_file()), None)
    return path.read_bytes() if path is not None else None


__all__ = [
    "ANY_ROOT",
    "GROUP",
    "AnyOption",
    "GivenOptions",
    "JobFactory",
    "MissingOptionError",
    "build_dry",
    "find_job",
    "find_plan",
    "load_job",
    "registered_jobs",
]
