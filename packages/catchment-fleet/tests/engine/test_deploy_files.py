"""The files in deploy/: every command is one of ours, and every path is made by somebody."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import typer
import yaml

import catchment
from catchment.cli import app
from catchment.errors import RuleError
from catchment_fleet.deploy import refuse_unknown_flower

DEPLOY = Path(__file__).parents[4] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"].startswith("catchment:")}
NODES = {name: one for name, one in OURS.items() if one["command"][:2] == ["flower", "node"]}
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
README = (DEPLOY / "README.md").read_text(encoding="utf-8")
NGINX = re.sub(r"#.*", "", (DEPLOY / "nginx.conf").read_text(encoding="utf-8"))


# Click's, or that of the Click within newer releases of Typer.
USAGE_ERROR: Any = typer.BadParameter.__base__


def parsed(words: list[str]) -> Any:
    """Return the parsed command line of `catchment`, which is not carried out."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("catchment", list(words), resilient_parsing=False)
    while True:
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        if not hasattr(command, "resolve_command"):
            return context


def lines_of_units() -> Iterator[tuple[str, list[str]]]:
    for unit in UNITS:
        for line in re.findall(r"^ExecStart\w*=(.*)$", unit.read_text(), re.MULTILINE):
            yield unit.name, shlex.split(line)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every command line of `catchment` in the files, and where it stands."""
    for name, service in OURS.items():
        yield f"compose {name}", [re.sub(r"\$\{\w+:-(.*)\}", r"\1", x) for x in service["command"]]
    for name, words in lines_of_units():
        if words[0].endswith("/catchment"):
            yield name, words[1:]
    for line in README.replace("\\\n", " ").splitlines():
        if line.startswith("    "):
            code = line.partition(" #")[0]
            for match in re.finditer(r"(?:^|/|\s)catchment ((?:flower|report) .*)", code):
                yield "README", shlex.split(match[1])
            for match in re.finditer(r"docker compose run .* register (.*)", code):
                yield "README", shlex.split(match[1])


@pytest.mark.parametrize(("where", "words"), list(commands()))
def test_every_command_is_one_of_ours(where: str, words: list[str]) -> None:
    assert parsed(words).command.name in words


def test_a_wrong_command_would_be_noticed() -> None:
    with pytest.raises(USAGE_ERROR):
        parsed(["flower", "serve", "/srv", "--no-such-option"])
    with pytest.raises(USAGE_ERROR):
        parsed(["flower", "no-such-command"])
    assert len(list(commands())) >= len(OURS) + 2 + 5


def mounts(service: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Return (source, target, whether it can be written) of what a service has mounted."""
    bound = [one.split(":") for one in service.get("volumes", [])]
    kept = [(one[0], one[1], one[2:] != ["ro"]) for one in bound]
    return kept + [("memory", one.split(":")[0], True) for one in service.get("tmpfs", [])]


def within(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


def test_every_path_of_a_service_is_mounted_there() -> None:
    made_by_the_keys = [target for _, target, writes in mounts(SERVICES["keys"]) if writes]
    assert made_by_the_keys[0] == "/var/lib/catchment"
    for name, service in SERVICES.items():
        targets = [target for _, target, _ in mounts(service)]
        for word in service["command"]:
            if word.startswith("/"):
                # `serve` and `register` name the folder above their own.
                own = f"{word}/server" if name in ("server", "register") else word
                assert any(within(own, target) for target in targets), (name, word)
        for source, target, _ in mounts(service):
            if source.startswith("./fleet/"):
                assert within(target, "/var/lib/catchment")
                assert target.removeprefix("/var/lib/catchment/") == source.removeprefix("./fleet/")
            elif source.startswith("./data/"):
                assert source.removeprefix("./") in README
            elif source not in ("memory", "./fleet"):
                assert (DEPLOY / source).is_file(), source


def test_every_path_of_nginx_is_there_in_its_container_and_unit() -> None:
    paths = set(re.findall(r"(?<=\s)/(?:var|run|etc)[\w./-]*", NGINX))
    assert len(paths) > 5
    seen = mounts(SERVICES["proxy"])
    unit = (DEPLOY / "systemd" / "catchment-proxy.service").read_text()
    for path in paths:
        assert any(within(path, target) for _, target, _ in seen), path
        if not path.startswith("/var/lib/catchment/server/"):
            assert any(within(path, target) and writes for _, target, writes in seen), path
            assert within(path, "/run/catchment-proxy")
    assert "RuntimeDirectory=catchment-proxy\n" in unit
    assert "StateDirectory=catchment\n" in unit


def test_a_node_sees_its_own_keys_and_data_alone() -> None:
    assert len(NODES) == 4
    assert {one["image"] for one in OURS.values()} == {f"catchment:{catchment.__version__}"}
    admitted = SERVICES["keys"]["command"]
    for name, node in NODES.items():
        assert admitted[admitted.index(name) - 1] == "--node"
        assert [source for source, _, _ in mounts(node)] == [
            f"./fleet/nodes/{name}",
            f"./data/{name}",
            "memory",
        ]
        assert not mounts(node)[1][2]  # data are read only
        assert node["networks"] == ["fleet"]
    assert COMPOSE["networks"]["fleet"]["internal"] is True


def test_every_service_is_locked_up() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service["user"].startswith("0"), name
        assert re.search(r":[0-9][\w.-]*$", service["image"]), name
        assert "environment" not in service, name  # where secrets would stand
        for other in service.get("depends_on", {}):
            assert other in SERVICES
    lasting = {name for name, one in SERVICES.items() if one["restart"] != "no"}
    assert lasting == {name for name, one in SERVICES.items() if "healthcheck" in one}


def test_the_image_is_built_from_sources_and_pinned_packages_alone() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert all(re.search(r":\d+\.\d+\.\d+-", base) for base in bases)
    assert "--require-hashes" in text
    assert re.search(r"^USER 1000:1000$", text, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
    sources = {word for line in copied for word in line.split()[:-1]}
    allowed = re.findall(r"^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert sources == set(allowed)
    for name in sources:
        assert (DEPLOY.parent / name).exists(), name


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_every_path_of_a_unit_is_made_by_it_or_by_the_steps(unit: Path) -> None:
    text = unit.read_text()
    made = {
        "/var/lib/catchment": "StateDirectory=catchment\n" in text,
        "/var/cache/catchment": "CacheDirectory=catchment\n" in text,
        "/run/catchment-proxy": "RuntimeDirectory=catchment-proxy\n" in text,
        "/etc/catchment": "install -d -m 755 /etc/catchment" in README,
        "/opt/catchment": "venv /opt/catchment" in README,
        "/usr/sbin/nginx": True,
        "/bin/kill": True,
    }
    settings = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for path in re.findall(r"(?<=[\s=])-?(/[\w./@%-]+)", settings):
        assert any(there and within(path, folder) for folder, there in made.items()), path
    for setting in ("NoNewPrivileges=yes", "ProtectSystem=strict", "User=catchment", "UMask=0077"):
        assert f"{setting}\n" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        # The programs are not installed here; everything else is as it is.
        text = re.sub(
            r"/opt/catchment/bin/catchment|/usr/sbin/nginx", "/bin/true", unit.read_text()
        )
        (tmp_path / unit.name).write_text(text)
    node = tmp_path / "catchment-node@ann.service"
    (tmp_path / "catchment-node@.service").rename(node)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
    )
    ours = [line for line in done.stderr.splitlines() if "catchment-" in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


def fleet_paths(client: str) -> set[str]:
    """Return what a node calls of the proxy, by the source of Flower's client."""
    kept = {"register-node", "unregister-node"}  # by the server's keeper, not through the proxy
    return set(re.findall(r'"/v1/fleet/([a-z-]+)"', client)) - kept


PASSED_ON = set(re.findall(r"location = /v1/fleet/([a-z-]+)", NGINX))


def test_nginx_passes_on_what_nodes_of_this_flower_call() -> None:
    about = importlib.util.find_spec("flwr.supernode.fleet_http_client")
    assert about is not None
    assert about.origin is not None
    assert fleet_paths(Path(about.origin).read_text(encoding="utf-8")) == PASSED_ON


@pytest.mark.long
def test_nginx_passes_on_what_nodes_of_every_allowed_flower_call(tmp_path: Path) -> None:
    text = (DEPLOY.parent / "packages/catchment-fleet/pyproject.toml").read_text(encoding="utf-8")
    needs = tomllib.loads(text)["project"]["dependencies"]
    ((first, beyond),) = re.findall(r"flwr>=1\.(\d+),<1\.(\d+)", " ".join(needs))
    allowed = [f"1.{minor}." for minor in range(int(first), int(beyond))]
    for release in allowed:
        refuse_unknown_flower(f"{release}0")
    with pytest.raises(RuleError):
        refuse_unknown_flower(f"1.{beyond}.0")
    for release in allowed:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path)]
        done = subprocess.run([*command, f"flwr=={release}*"], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no package index has Flower {release}*")
    wheels = sorted(tmp_path.glob("flwr-*.whl"))
    assert len(wheels) == len(allowed)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as held:
            client = held.read("flwr/supernode/fleet_http_client.py").decode()
        assert fleet_paths(client) == PASSED_ON, wheel.name
