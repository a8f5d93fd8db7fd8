"""The Kubernetes manifests: valid, consistent with each other and with the gateway."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from support.deployment import (
    DEPLOY,
    PINNED,
    documents,
    image_environment,
    last,
    settings_in_use,
    valkey_by,
    variables_named,
)

from stepwell.gateway.openapi import openapi_document

FOLDER = DEPLOY / "kubernetes"
SETTINGS = FOLDER / "stepwell.toml"
KUSTOMIZATION: dict[str, Any] = documents(FOLDER / "kustomization.yaml")[0]
OBJECTS: list[Any] = [
    document
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in documents(path)
]


def named(kind: str, name: str) -> Any:
    (found,) = [o for o in OBJECTS if o["kind"] == kind and o["metadata"]["name"] == name]
    return found


PODS = {
    name: named(kind, name)["spec"]["template"]
    for kind, name in (("Deployment", "stepwell"), ("StatefulSet", "redis"))
}
GATEWAY: dict[str, Any] = PODS["stepwell"]["spec"]["containers"][0]


@pytest.mark.parametrize("document", OBJECTS, ids=lambda o: f"{o['kind']}-{o['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_schema(document: Any, version: str) -> None:
    """Each object is of Kubernetes's own schema, to the last field."""
    kubernetes_validate.validate(document, version, strict=True)


def test_all_files_are_used() -> None:
    """But for what is optional, and the Secret, which nobody should apply."""
    left = {path.name for path in FOLDER.glob("*.yaml")} - {*KUSTOMIZATION["resources"]}
    assert left == {"autoscaling.yaml", "kustomization.yaml", "secret.example.yaml"}
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert generated == {"name": "stepwell", "files": [SETTINGS.name]}
    for text in ("autoscaling.yaml", "secret.example.yaml"):
        assert documents(FOLDER / text)[0]["metadata"]["namespace"] == KUSTOMIZATION["namespace"]
    assert named("Namespace", KUSTOMIZATION["namespace"])


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kustomize_puts_it_together() -> None:
    """What it makes is valid too, all in one namespace, with the settings under a digest's name."""
    made = subprocess.run(
        ["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True
    ).stdout
    objects = list(yaml.safe_load_all(made))
    for one in objects:
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
    spaces = {one["metadata"].get("namespace") for one in objects if one["kind"] != "Namespace"}
    assert spaces == {KUSTOMIZATION["namespace"]}
    (settings,) = [one for one in objects if one["kind"] == "ConfigMap"]
    assert settings["data"] == {SETTINGS.name: SETTINGS.read_text()}
    (gateway,) = [one for one in objects if one["kind"] == "Deployment"]
    volumes = gateway["spec"]["template"]["spec"]["volumes"]
    names = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
    assert names == [settings["metadata"]["name"]] != ["stepwell"]


def test_settings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables that the Deployment sets, from keys that the Secret has."""
    keys = {
        variable["name"]: variable["valueFrom"]["secretKeyRef"]
        for pod in PODS.values()
        for variable in pod["spec"]["containers"][0]["env"]
    }
    secret = named("Secret", "stepwell")
    assert {key["name"] for key in keys.values()} == {secret["metadata"]["name"]}
    assert {key["key"] for key in keys.values()} == set(secret["stringData"])
    assert set(secret["stringData"].values()) == {""}
    assert {variable["name"] for variable in GATEWAY["env"]} == variables_named(SETTINGS)
    for variable in variables_named(SETTINGS):
        monkeypatch.setenv(variable, "x" * 32)
    settings = settings_in_use(SETTINGS)
    service = named("Service", "redis")
    port = service["spec"]["ports"][0]["port"]
    assert settings.stores.redis.url == f"redis://{service['metadata']['name']}:{port}/0"


def test_it_is_given_the_time_that_it_takes_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drain outlasts the readiness probe, and all of it ends before the kill."""
    for variable in variables_named(SETTINGS):
        monkeypatch.setenv(variable, "x" * 32)
    server = settings_in_use(SETTINGS).server
    grace = PODS["stepwell"]["spec"]["terminationGracePeriodSeconds"]
    assert server.drain_seconds + server.shutdown_seconds + 10 <= grace
    probe = GATEWAY["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < server.drain_seconds
    strategy = named("Deployment", "stepwell")["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxUnavailable": 0, "maxSurge": 1}


def test_probes_ask_what_there_is() -> None:
    """Routes of the gateway; liveness must not depend on what readiness tells."""
    paths = {
        name: GATEWAY[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    annotations = PODS["stepwell"]["metadata"]["annotations"]
    assert {*paths.values(), annotations["prometheus.io/path"]} <= set(openapi_document()["paths"])
    (port,) = GATEWAY["ports"]
    assert str(port["containerPort"]) == annotations["prometheus.io/port"] == last("EXPOSE")


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_pods_are_restricted(pod: Any) -> None:
    """As the Pod Security Standard "restricted" asks, and with a root file system to read only."""
    labels = named("Namespace", "stepwell")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    whole = pod["spec"]["securityContext"]
    assert whole["runAsNonRoot"]
    assert whole["runAsUser"] > 0
    assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["spec"]["automountServiceAccountToken"] is False
    for container in pod["spec"]["containers"]:
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"]
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
    assert all({"configMap", "emptyDir"} & {*volume} for volume in pod["spec"]["volumes"])


def test_it_is_the_image_that_is_built() -> None:
    """Its user, the directories it writes to, its command; pinned."""
    user = PODS["stepwell"]["spec"]["securityContext"]
    assert f"{user['runAsUser']}:{user['runAsGroup']}" == last("USER")
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in GATEWAY["volumeMounts"]}
    data = f"{image_environment()['XDG_DATA_HOME']}/stepwell"
    assert mounts == {data: False, "/tmp": False, "/etc/stepwell": True}
    assert GATEWAY["args"] == ["serve", "--config", f"/etc/stepwell/{SETTINGS.name}"]
    (image,) = KUSTOMIZATION["images"]
    assert image["name"] == GATEWAY["image"]
    assert PINNED.fullmatch(f"{image['newName']}:{image['newTag']}")
    assert PINNED.fullmatch(PODS["redis"]["spec"]["containers"][0]["image"])


def test_selectors_find_what_they_mean() -> None:
    """Services, budgets, policies and controllers select the pods of one kind each."""
    selectors = [
        ("stepwell", named("Deployment", "stepwell")["spec"]["selector"]["matchLabels"]),
        ("redis", named("StatefulSet", "redis")["spec"]["selector"]["matchLabels"]),
        ("stepwell", named("Service", "stepwell")["spec"]["selector"]),
        ("redis", named("Service", "redis")["spec"]["selector"]),
        ("stepwell", named("PodDisruptionBudget", "stepwell")["spec"]["selector"]["matchLabels"]),
        ("stepwell", named("NetworkPolicy", "gateway")["spec"]["podSelector"]["matchLabels"]),
        ("redis", named("NetworkPolicy", "redis")["spec"]["podSelector"]["matchLabels"]),
    ]
    for wanted, selector in selectors:
        found = [
            name
            for name, pod in PODS.items()
            if selector.items() <= pod["metadata"]["labels"].items()
        ]
        assert found == [wanted]
    target = named("HorizontalPodAutoscaler", "stepwell")["spec"]["scaleTargetRef"]
    assert named(target["kind"], target["name"])["apiVersion"] == target["apiVersion"]


def test_policies_let_through_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """To Redis and to the model server of the settings; everything else is refused."""
    for variable in variables_named(SETTINGS):
        monkeypatch.setenv(variable, "x" * 32)
    settings = settings_in_use(SETTINGS)
    closed = named("NetworkPolicy", "nothing-else")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    rules = named("NetworkPolicy", "gateway")["spec"]["egress"]
    ports = {port["port"] for rule in rules for port in rule["ports"]}
    assert ports == {53, 6379, 8000}
    spaces = {
        place["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for rule in rules
        for place in rule["to"]
        if "namespaceSelector" in place
    }
    (upstream,) = settings.upstreams.values()
    host = str(upstream.base_url).split("/")[2]
    assert host.endswith(":8000")
    assert host.split(".")[1] in spaces


def test_the_store_has_a_password_and_a_bound(tmp_path: Path) -> None:
    """Its script starts a server that is set up as the gateway wants it, below its memory limit."""
    (container,) = PODS["redis"]["spec"]["containers"]
    shell, option, script = container["command"]
    assert (shell, option, container["resources"]["limits"]["memory"]) == ("sh", "-c", "4Gi")
    with valkey_by(script, tmp_path) as ask:
        assert ask("CONFIG", "GET", "maxmemory-policy") == ["maxmemory-policy", "volatile-lru"]
        assert ask("CONFIG", "GET", "maxmemory") == ["maxmemory", str(3 << 30)]
        assert ask("CONFIG", "GET", "save") == ["save", ""]
