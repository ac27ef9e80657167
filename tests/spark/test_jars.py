"""Delta's jars: what is kept, what is refused, and what an interruption leaves. No JVM: the resolver is a double."""

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from state_engine.spark import jars
from state_engine.spark.jars import JarsUnavailableError, cache_folder, coordinate, delta_jars

OWN = [
    "io.delta_delta-spark_4.2_2.13-4.4.0.jar",
    "io.delta_delta-storage-4.4.0.jar",
    "io.unitycatalog_client-0.6.0.jar",
]
FOREIGN = ["org.apache.hadoop_hadoop-client-api-3.4.2.jar", "com.github.luben_zstd-jni-1.5.7-3.jar"]


def make_jar(file: Path, content: str = "class") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("A.class"), content)  # without the time, so that two such jars are equal
    return file


class Ivy:
    """Replaces the download, and counts how often it was called."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.calls = 0
        self.before = before

    def __call__(self, folder: Path) -> list[Path]:
        self.calls += 1
        self.before()
        return [make_jar(folder / "jars" / name) for name in [*OWN, *FOREIGN]]


def names(found: list[Path]) -> list[str]:
    return [jar.name for jar in found]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LAKESTATE_JARS", raising=False)
    monkeypatch.setenv("LAKESTATE_JARS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def kept(cache: Path) -> Path:
    return cache / "io.delta_delta-spark_4.2_2.13_4.4.0"


def test_the_coordinate_follows_the_installed_packages() -> None:
    assert coordinate() == "io.delta:delta-spark_4.2_2.13:4.4.0"


def test_the_cache_is_below_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKESTATE_JARS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/lakestate/jars")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder() == Path("/home/ada/.cache/lakestate/jars")


def test_only_deltas_own_groups_are_kept(kept: Path) -> None:
    assert delta_jars(resolve=Ivy()) == [kept / name for name in OWN]


def test_the_second_call_resolves_nothing() -> None:
    ivy = Ivy()
    assert delta_jars(resolve=ivy) == delta_jars(resolve=ivy)
    assert ivy.calls == 1


def test_the_marker_lists_names_sizes_and_checksums(kept: Path) -> None:
    delta_jars(resolve=Ivy())
    marker = json.loads((kept / "complete.json").read_text())
    assert marker["coordinate"] == coordinate()
    assert [jar["name"] for jar in marker["jars"]] == OWN
    assert all(
        jar["size"] == (kept / jar["name"]).stat().st_size and len(jar["sha256"]) == 64 for jar in marker["jars"]
    )


def test_nothing_else_is_left_in_the_cache(cache: Path, kept: Path) -> None:
    delta_jars(resolve=Ivy())
    assert list(cache.iterdir()) == [kept]


def test_a_folder_without_marker_is_not_taken_for_finished(kept: Path) -> None:
    make_jar(kept / OWN[0])
    ivy = Ivy()
    assert names(delta_jars(resolve=ivy)) == OWN
    assert ivy.calls == 1


@pytest.mark.parametrize("damage", [b"", b"not a jar"])
def test_a_damaged_cached_jar_is_fetched_again(kept: Path, damage: bytes) -> None:
    delta_jars(resolve=Ivy())
    sound = (kept / OWN[0]).read_bytes()
    (kept / OWN[0]).write_bytes(damage)
    delta_jars(resolve=Ivy())
    assert (kept / OWN[0]).read_bytes() == sound


def test_a_flipped_byte_of_the_same_size_is_noticed(kept: Path) -> None:
    delta_jars(resolve=Ivy())
    sound = (kept / OWN[0]).read_bytes()
    (kept / OWN[0]).write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    ivy = Ivy()
    delta_jars(resolve=ivy)
    assert ivy.calls == 1


def test_a_failed_download_leaves_nothing(cache: Path) -> None:
    def fail() -> None:
        raise JarsUnavailableError("no network")

    with pytest.raises(JarsUnavailableError, match="no network"):
        delta_jars(resolve=Ivy(fail))
    assert list(cache.iterdir()) == []


def test_a_download_without_deltas_jars_is_an_error() -> None:
    with pytest.raises(JarsUnavailableError, match="gave no jar"):
        delta_jars(resolve=lambda folder: [make_jar(folder / FOREIGN[0])])


def test_a_cache_that_cannot_be_written_is_an_error_with_remedy(cache: Path) -> None:
    cache.write_text("a file is here")
    with pytest.raises(JarsUnavailableError, match="LAKESTATE_JARS_CACHE"):
        delta_jars(resolve=Ivy())


def test_concurrent_resolves_agree(cache: Path, kept: Path) -> None:
    together = threading.Barrier(4)
    ivy = Ivy(lambda: (together.wait(30), None)[1])
    jars: list[list[Path]] = []
    threads = [threading.Thread(target=lambda: jars.append(delta_jars(resolve=ivy))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert jars == [[kept / name for name in OWN]] * 4
    assert list(cache.iterdir()) == [kept]


def test_a_named_folder_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    for name in ["delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]:
        make_jar(folder / name)
    expected = sorted(folder.iterdir())
    ivy = Ivy()
    assert delta_jars(folder, resolve=ivy) == expected
    monkeypatch.setenv("LAKESTATE_JARS", str(folder))
    assert delta_jars(resolve=ivy) == expected
    assert ivy.calls == 0


def test_the_cache_of_another_machine_can_be_named(kept: Path) -> None:
    jars = delta_jars(resolve=Ivy())
    assert delta_jars(kept) == jars


@pytest.mark.parametrize("present", [[], [OWN[0]], ["delta-spark_4.2_2.13-4.3.0.jar", OWN[1]]])
def test_a_named_folder_without_the_jar_is_an_error_with_remedy(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        make_jar(tmp_path / name)
    with pytest.raises(JarsUnavailableError, match="does not hold") as caught:
        delta_jars(tmp_path)
    assert "python -m state_engine.spark.jars" in caught.value.action


def test_a_damaged_jar_in_a_named_folder_is_an_error(tmp_path: Path) -> None:
    for name in OWN:
        make_jar(tmp_path / name)
    whole = (tmp_path / OWN[0]).read_bytes()
    (tmp_path / OWN[0]).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(JarsUnavailableError, match=OWN[0]):
        delta_jars(tmp_path)


def test_a_named_folder_that_differs_from_its_marker_is_an_error(kept: Path) -> None:
    delta_jars(resolve=Ivy())
    make_jar(kept / OWN[0], "other class")
    with pytest.raises(JarsUnavailableError, match=r"complete\.json"):
        delta_jars(kept)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "noise\n:: UNRESOLVED DEPENDENCIES ::\n:: io.delta#x;4.4.0: not found\nmore noise",
            "io.delta#x;4.4.0: not found",
        ),
        ("first\nlast", "first; last"),
        ("", "no output"),
    ],
)
def test_the_reason_is_picked_out_of_the_report(log: str, reason: str) -> None:
    assert jars._reason(log) == reason


def test_a_download_without_java_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(JarsUnavailableError, match="Java did not start") as caught:
        jars._resolve_with_ivy(tmp_path)
    assert "Install Java 17 or 21" in caught.value.action


def test_a_download_without_network_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ":: resolving dependencies ::\n\tio.delta#delta: not found\n[JAVA_GATEWAY_EXITED]"
    monkeypatch.setattr(jars, "_CHILD", f"import sys; sys.exit({log!r})")
    with pytest.raises(JarsUnavailableError, match=r"io\.delta#delta: not found") as caught:
        jars._resolve_with_ivy(tmp_path)
    assert "LAKESTATE_JARS" in caught.value.action


def test_a_download_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_CHILD", "import time; time.sleep(60)")
    with pytest.raises(JarsUnavailableError, match="not resolved within"):
        jars._resolve_with_ivy(tmp_path, timeout_s=0.5)


def test_as_a_command_it_prints_the_folder(tmp_path: Path) -> None:
    for name in OWN:
        make_jar(tmp_path / name)
    command = [sys.executable, "-m", "state_engine.spark.jars"]
    for folder, code in ((tmp_path, 0), (tmp_path / "none", 1)):
        env = {**os.environ, "LAKESTATE_JARS": str(folder)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == code
        assert str(folder) in (done.stderr if code else done.stdout)
        assert "Traceback" not in done.stderr


def test_connectors_have_folders_of_their_own_and_are_resolved_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []

    def resolve(code: str, ivy: Path, arguments: tuple[str, ...], named: str, timeout_s: float) -> list[Path]:
        calls.append(arguments)
        artifacts = [one.split(":") for one in arguments[1:]]
        return [make_jar(ivy / "jars" / f"{group}_{name}-{release}.jar") for group, name, release in artifacts]

    monkeypatch.setattr(jars, "_resolved", resolve)
    found = names(jars.connector_jars(["kafka"]))
    assert [name.partition("_")[2].rpartition("-")[0] for name in found] == [
        "commons-pool2", "kafka-clients", "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13",
    ]  # fmt: skip
    assert names(jars.connector_jars(["kafka"])) == found
    assert [arguments[0] for arguments in calls] == ["false"], "each artifact alone, once"
    broker = names(jars.broker_jars())
    assert any("kafka_2.13" in name for name in broker)
    assert any(name.startswith("scala-library") for name in broker)
    assert calls[1][0] == "true"
    assert len(list(cache.iterdir())) == 2


def test_a_folder_of_a_machine_without_a_network_holds_the_connectors_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKESTATE_JARS", str(tmp_path / "folder"))
    for name in OWN:
        make_jar(tmp_path / "folder" / name)
    with pytest.raises(JarsUnavailableError, match=r"does not hold spark-sql-kafka-0-10_2.13-4.2.0.jar and") as caught:
        jars.connector_jars(["kafka"])
    assert "LAKESTATE_JARS" in caught.value.action
    wanted = [
        "org.apache.spark_spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
        "org.apache.kafka_kafka-clients-3.9.1.jar",
        "commons-pool2-2.12.1.jar",
    ]
    for name in wanted:
        make_jar(tmp_path / "folder" / name)
    assert names(jars.connector_jars(["kafka"])) == wanted
    assert jars.connector_jars([]) == []


def test_a_connector_that_does_not_exist_is_named() -> None:
    with pytest.raises(JarsUnavailableError, match="no connector 'pulsar'") as caught:
        jars.connector_jars(["pulsar"])
    assert "kafka" in caught.value.action
