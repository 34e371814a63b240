"""The files of deploy/: they are what their tools read, and name settings and routes that exist."""

import json
import os
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from kbnav.settings.model import Settings
from tests.conftest import ROOT
from tests.deploy.balancer import configured

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes" / "kbnav.yaml"
EXAMPLES = {
    "KBNAV_WEB__TOKENS": '{"alice": "alice-has-nevertobeleft"}',
    "KBNAV_WEB__HOSTS": '["ask.example.org"]',
    "KBNAV_WEB__PROXY_ADDRESSES": '["172.30.7.0/24"]',
}


def container() -> dict[str, Any]:
    documents = list(yaml.safe_load_all(KUBERNETES.read_text()))
    (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_the_manifests_are_what_kubernetes_reads():
    kinds = [one["kind"] for one in yaml.safe_load_all(KUBERNETES.read_text())]
    assert {"Deployment", "Service", "Ingress", "PodDisruptionBudget"} <= set(kinds)
    command = [Path(sys.executable).parent / "kubernetes-validate", "--strict", KUBERNETES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_file_for_qlever_is_what_its_command_reads_and_names_its_own_address():
    read = ConfigParser(interpolation=None)
    read.read_string((DEPLOY / "Qleverfile").read_text())
    sections = {"data": "GET_DATA_CMD", "index": "CAT_INPUT_FILES", "server": "MEMORY_FOR_QUERIES", "runtime": "SYSTEM"}
    assert [name for name, key in sections.items() if not read[name][key]] == []
    for name in read["index"]["INPUT_FILES"].split():
        assert name in read["data"]["GET_DATA_CMD"]
    json.loads(read["index"]["SETTINGS_JSON"])
    port = read["server"]["PORT"]
    assert f"http://127.0.0.1:{port}" in (DEPLOY / "Qleverfile").read_text()
    assert f"http://127.0.0.1:{port}" in (ROOT / "docs" / "scale.md").read_text()


def test_compose_reads_its_file_and_needs_the_secrets(tmp_path):
    command = [Path(sys.executable).parent / "podman-compose", "-f", DEPLOY / "compose.yaml"]
    needed = {"KBNAV_TOKENS": "{}", "KBNAV_HOSTS": "[]", "POSTGRES_PASSWORD": "secret"}
    secrets = tmp_path / "secrets"
    secrets.write_text("".join(f"{name}={value}\n" for name, value in needed.items()))
    podman = tmp_path / "podman"  # it is asked for its version, and for nothing else
    podman.write_text("#!/bin/sh\necho 5.0.0\n")
    podman.chmod(0o755)
    asked = {"capture_output": True, "text": True, "env": {"PATH": f"{tmp_path}:{os.defpath}"}}
    done = subprocess.run([*command, "--env-file", secrets, "config"], **asked)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert services["kbnav-1"]["environment"]["KBNAV_DATABASE"] == "postgresql://kbnav:secret@database/kbnav"
    assert {"kbnav-1", "kbnav-2", "database", "balancer"} == set(services)
    secrets.write_text("KBNAV_TOKENS={}\n")
    done = subprocess.run([*command, "--env-file", secrets, "config"], **asked)
    assert done.returncode != 0


def test_variables_that_are_set_are_settings(monkeypatch, tmp_path):
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    named = {*compose["x-kbnav"]["environment"], *(one["name"] for one in container()["env"])}
    ours = sorted(name for name in named if name.startswith("KBNAV_"))
    assert len(ours) >= 3
    monkeypatch.chdir(tmp_path)
    for name in ours:
        monkeypatch.setenv(name, EXAMPLES.get(name, "a-value-that-is-long"))
    settings = Settings()
    assert settings.database.get_secret_value() == "a-value-that-is-long"
    assert settings.web.hosts == ("ask.example.org",)
    balancers = compose["networks"]["default"]["ipam"]["config"][0]["subnet"]
    assert json.loads(compose["x-kbnav"]["environment"]["KBNAV_WEB__PROXY_ADDRESSES"]) == [balancers]


def test_the_settings_in_the_manifests_are_settings(monkeypatch, tmp_path):
    (config,) = [one for one in yaml.safe_load_all(KUBERNETES.read_text()) if one["kind"] == "ConfigMap"]
    (tmp_path / "kbnav.toml").write_text(config["data"]["kbnav.toml"])
    monkeypatch.chdir(tmp_path)
    assert Settings().web.hosts == ("ask.example.org",)
    assert container()["workingDir"] == "/etc/kbnav"


def test_probes_ask_routes_that_exist():
    routes = "".join(file.read_text() for file in (ROOT / "src/kbnav/apps/web/routes").glob("*.py"))
    probed = {container()[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")}
    assert probed == {"/ready", "/health"}
    assert all(f'router.get("{path}")' in routes for path in probed)


def test_nginx_reads_its_file(tmp_path):
    if not (nginx := shutil.which("nginx")):
        pytest.skip("no nginx: install Debian's package nginx-light")
    file = configured(tmp_path, ["127.0.0.1:1", "127.0.0.1:2"], 8099)
    done = subprocess.run([nginx, "-t", "-p", tmp_path, "-c", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def instructions(file: Path) -> list[tuple[str, str]]:
    """Of a container file: each with what follows it, on one line."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.M).replace("\\\n", " ")
    return [(word, rest) for line in text.splitlines() for word, _, rest in [line.partition(" ")]]


def copied(steps: list[tuple[str, str]], folder: Path) -> None:
    """Copy into a folder what a container file copies into the container."""
    for sources in [rest.split() for word, rest in steps if word == "COPY"]:
        for source in sources[:-1]:
            into = folder / sources[-1].strip("/") / (source if sources[-1].endswith("/") else "")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into, symlinks=True)
            else:
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, into)


def test_the_steps_of_the_container_files_make_a_kbnav_that_starts(tmp_path):
    """By hand, where no container can be run: what they copy, installed as they say, starts as they say."""
    serve, bot = (instructions(DEPLOY / f"{name}.Containerfile") for name in ("serve", "bot"))
    made = ("FROM", "COPY", "RUN", "USER")
    assert [step for step in serve if step[0] in made] == [step for step in bot if step[0] in made]
    assert {word for word, _ in (*serve, *bot)} <= {*made, "WORKDIR", "ENV", "EXPOSE", "ENTRYPOINT", "CMD"}
    copied(serve, tmp_path)
    (run,) = [rest for word, rest in serve if word == "RUN"]
    assert "pip install --no-cache-dir --no-deps /src" in run
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site"]
    subprocess.run([*install, tmp_path / "src"], check=True)
    shown = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(tmp_path / "site")}, "text": True}
    for steps in (serve, bot):
        told = {word: yaml.safe_load(rest) for word, rest in steps if word in ("ENTRYPOINT", "CMD")}
        command = [sys.executable, "-m", *told["ENTRYPOINT"], *told["CMD"], "--help"]
        assert "Usage: kbnav" in subprocess.run(command, stdout=subprocess.PIPE, check=True, **shown).stdout
    where = [sys.executable, "-c", "import kbnav; print(kbnav.__file__)"]
    assert str(tmp_path) in subprocess.run(where, stdout=subprocess.PIPE, check=True, **shown).stdout


def test_images_are_pinned_to_a_version():
    files = [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.Containerfile")]
    images = re.findall(r"(?:image: |^FROM )(\S+)", "".join(file.read_text() for file in files), re.M)
    assert len(images) >= 5
    assert not [image for image in images if image.endswith(":latest") or (":" not in image and "kbnav" not in image)]
