"""How a driver is started: what the command line, Dagster and a restart pass on to the runner."""

import re
from pathlib import Path
from urllib.parse import urlparse

import msgspec

from state_engine.errors import SessionError

_BY_OPTIONS = {
    "spark.master": "`--master`",
    "spark.remote": "`--master`; Spark Connect cannot run jobs",
    "spark.pyspark.python": "`--python`",
    "spark.pyspark.driver.python": "the driver's own interpreter",
}
_CORES = re.compile(r"([1-9]\d*|\*)(,\d+)?")
_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""As Spark's own `spark.redaction.regex`."""


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver is started; a restart uses the same request. The environment, which may hold secrets, is not stored.

    Each field but `directory` is an option of the runner, in this order.

    Attributes:
        options: For the job's factory.
        restore: What a new generation starts from. This happens once: a later restart goes on from the new epochs.
        uid_mapping: For the restore: former uids of operators to their current ones.
        max_parallelism: For the restore: new number of key groups for all keys.
        allow_non_restored_state: Skip the state of operators that the job no longer has, in each start.
        resume_state: Operators that were removed and added again, and go on with their old state.
        discard_state: Operators that were removed and added again, and start without state.
        keep_output: Keep the rows that sinks have, and leave out owed output that a sink cannot take; until the restore
            is done, or the first epoch is sealed.
        adopt_sinks: Keep rows in sinks that the state root does not know about; only for this start, not a restart.
        allow_changed_sources: Numbers of sources that may have changed; only for this start, not a restart.
        strict: Fail if there is state that the code does not read.
        parallelism: Subtasks of every operator; by default that of the job.
        cores: Task slots of a session on this machine.
        master: Address of a cluster; by default the session is on this machine.
        python: The interpreter of the cluster's executors.
        environment: A packed environment that Spark sends to the executors: an absolute path or an address.
        conf: Further settings of Spark.
        rest_address: Where the job's REST server listens.
        rest_port: Its port.
        available_now: Stop after reading the input that is available now.
        trigger_interval_ms: Time between the beginnings of two epochs with input; by default that of the engine.
        directory: Working directory, for relative paths in options; by default that of the process that starts it.
    """

    options: dict[str, str] = {}
    restore: str | None = None
    uid_mapping: dict[str, str] = {}
    max_parallelism: int | None = None
    allow_non_restored_state: bool = False
    resume_state: tuple[str, ...] = ()
    discard_state: tuple[str, ...] = ()
    keep_output: bool = False
    adopt_sinks: bool = False
    allow_changed_sources: tuple[int, ...] = ()
    strict: bool = False
    parallelism: int | None = None
    cores: str | None = None
    master: str | None = None
    python: str | None = None
    environment: str | None = None
    conf: dict[str, str] = {}
    rest_address: str | None = None
    rest_port: int | None = None
    available_now: bool = False
    trigger_interval_ms: int | None = None
    directory: str = ""

    def placed(self) -> "StartRequest":
        """Returns the request with a working directory: that of this process, unless the request has one."""
        return msgspec.structs.replace(self, directory=self.directory or str(Path.cwd()))

    def restored(self) -> "StartRequest":
        """Returns the request for a restart after the restore is done: the job goes on from the epochs since then."""
        return msgspec.structs.replace(
            self,
            restore=None,
            uid_mapping={},
            max_parallelism=None,
            resume_state=(),
            discard_state=(),
            keep_output=False,
            adopt_sinks=False,
            allow_changed_sources=(),
        )

    def arguments(self) -> list[str]:
        """Returns the request as options of the runner."""
        words: list[str] = []
        for field, value in msgspec.structs.asdict(self).items():
            name = "--option" if field == "options" else f"--{field.replace('_', '-')}"
            if field == "directory" or value is None or value is False:
                continue
            if value is True:
                words.append(name)
            elif isinstance(value, dict):
                words += [word for key, item in value.items() for word in (name, f"{key}={item}")]
            elif isinstance(value, tuple):
                words += [word for item in value for word in (name, str(item))]
            else:
                words += [name, str(value)]
        return words

    def check_session(self) -> None:
        """Checks that the settings of the Spark session fit together.

        Raises:
            SessionError: They do not.
        """
        if self.master is not None and (self.master in ("", "local") or self.master.startswith("local[")):
            raise SessionError(f"{self.master!r} is no cluster.", action="For this machine give `--cores` instead.")
        if self.cores is not None and not _CORES.fullmatch(self.cores):
            raise SessionError(f"{self.cores!r} is no number of task slots.", action="Give a number, or `*`.")
        for name, value in (("python", self.python), ("environment", self.environment)):
            if value is not None and self.master is None:
                raise SessionError(f"`--{name}` is for a cluster.", action="Give its address by `--master`.")
        if self.cores is not None and self.master is not None:
            raise SessionError(
                "`--cores` is for a session on this machine.",
                action="For a cluster set `spark.executor.cores` by `--conf`.",
            )
        if self.environment is not None and not (
            urlparse(self.environment).scheme or Path(self.environment).is_absolute()
        ):
            raise SessionError(
                f"The path of the packed environment, {self.environment!r}, is relative.",
                action="Give an absolute path, or an address that Spark can read.",
            )
        for name in self.conf:
            if name in _BY_OPTIONS:
                raise SessionError(f"{name} is not set by `--conf`.", action=f"It is {_BY_OPTIONS[name]}.")
            if _SECRET.search(name):
                raise SessionError(
                    f"{name} seems to be a secret, and others can see the arguments of a process.",
                    action="Put it into `spark-defaults.conf` of the driver, or into the environment.",
                )


__all__ = ["StartRequest"]
