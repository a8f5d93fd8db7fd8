"""The compose file and what its services read."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.deployment import (
    DEPLOY,
    documents,
    image_environment,
    settings_in_use,
    valkey_by,
    variables_named,
)

FILE = DEPLOY / "compose.yaml"
SETTINGS = DEPLOY / "compose" / "stepwell.toml"
BALANCER = DEPLOY / "compose" / "haproxy.cfg"
SERVICES: dict[str, Any] = documents(FILE)[0]["services"]
GATEWAYS = ["gateway-1", "gateway-2"]


def test_schema() -> None:
    """It is what the Compose Specification says."""
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", FILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_settings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables that the services set, and no others."""
    for name in GATEWAYS:
        assert variables_named(SETTINGS) == set(SERVICES[name]["environment"])
    for variable in variables_named(SETTINGS):
        monkeypatch.setenv(variable, "x" * 32)
    settings = settings_in_use(SETTINGS)
    assert str(settings.stores.redis.url).removeprefix("redis://").partition(":")[0] in SERVICES
    grace = {SERVICES[name]["stop_grace_period"] for name in GATEWAYS}
    assert {int(text.removesuffix("s")) for text in grace} == {140}
    assert settings.server.drain_seconds + settings.server.shutdown_seconds <= 130


def test_no_value_of_a_secret_stands_there() -> None:
    """Each is taken from who starts it, and none has a default."""
    secrets = [
        value
        for service in SERVICES.values()
        for name, value in service.get("environment", {}).items()
        if re.search("SECRET|TOKEN|PASSWORD|AUTH", name)
    ]
    assert len(secrets) == 3 * len(GATEWAYS) + 3
    assert all(re.fullmatch(r"\$\{\w+:\?[^}]+\}", value) for value in secrets)


def test_what_is_mounted_is_there() -> None:
    """Files of the repository, read-only; volumes by their names, at the gateway's own place."""
    for name, service in SERVICES.items():
        for source, target, *mode in (volume.split(":") for volume in service.get("volumes", [])):
            if source.startswith("."):
                assert (FILE.parent / source).exists(), source
                assert mode == ["ro"]
            else:
                assert source in documents(FILE)[0]["volumes"]
            if source in GATEWAYS:
                assert source == name
                assert target == f"{image_environment()['XDG_DATA_HOME']}/stepwell"


def test_services_are_hardened() -> None:
    """No root file system to write to, no capabilities; reached from this machine only."""
    for service in SERVICES.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_those_who_look_for_gateways_find_them() -> None:
    """Balancer and Prometheus name every gateway; Grafana finds Prometheus and the dashboard."""
    wanted = {f"{name}:8080" for name in GATEWAYS}
    assert set(re.findall(r"^    server \S+ (\S+)", BALANCER.read_text(), re.MULTILINE)) == wanted
    (prometheus,) = documents(DEPLOY / "prometheus" / "prometheus.yml")
    (job,) = prometheus["scrape_configs"]
    assert set(job["static_configs"][0]["targets"]) == wanted
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = documents(provisioning / "datasources" / "prometheus.yml")[0]["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = documents(provisioning / "dashboards" / "stepwell.yml")[0]["providers"]
    targets = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert provider["options"]["path"] in targets


def test_the_store_has_a_password_and_a_bound(tmp_path: Path) -> None:
    """Its script starts a server that is set up as the gateway wants it."""
    shell, option, script = SERVICES["redis"]["command"]
    assert (shell, option) == ("sh", "-c")
    with valkey_by(script.replace("$$", "$"), tmp_path) as ask:
        assert ask("CONFIG", "GET", "maxmemory-policy") == ["maxmemory-policy", "volatile-lru"]
        assert ask("CONFIG", "GET", "maxmemory") == ["maxmemory", str(1 << 30)]
        assert ask("CONFIG", "GET", "save") == ["save", ""]


@pytest.mark.skipif(not shutil.which("haproxy"), reason="haproxy is not installed")
def test_haproxy_takes_its_settings() -> None:
    """As far as it can tell without the gateways."""
    checked = subprocess.run(
        ["haproxy", "-c", "-f", BALANCER], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
