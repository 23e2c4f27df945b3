"""The installed package is the house: egretta.ROOM for every room, typed, with its data files."""

import configparser
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("engines", "jobs", "kernels", "throttling", "workflows")


def files_of_rooms() -> set[str]:
    """Every file of the rooms, relative to the root, but for what Python and editors leave behind."""
    return {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def run(*command: str | Path, cwd: Path) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the sources, because a build leaves its traces in them."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", folder, ".", cwd=source)
    (built,) = folder.glob("egretta-*.whl")
    return built


def environment(folder: Path) -> Path:
    """A bare environment that sees the libraries of this one, but not its editable egretta."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # a path in a .pth file is not searched for .pth files in turn, so the editable install stays out of sight
    (Path(site) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install(python: Path, *what: str | Path, cwd: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    # --ignore-installed: pip sees the editable egretta of this environment and would remove it
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", *what, cwd=cwd)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The Python of an environment that the wheel is installed in."""
    folder = tmp_path_factory.mktemp("installed")
    python = environment(folder)
    install(python, wheel, cwd=folder)
    return python


def test_setup_names_every_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    named = set(setup["options"]["packages"].split())
    folders = {Path(name).parent for name in files_of_rooms() if name.endswith(".py")}
    assert named == {"egretta." + ".".join(folder.parts) for folder in folders}


def test_the_wheel_holds_every_file_of_the_rooms(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix("egretta/") for name in archive.namelist() if name.startswith("egretta/")}
    assert held == files_of_rooms()
    assert {f"{room}/py.typed" for room in ROOMS} <= held


def test_the_wheel_holds_nothing_beside_egretta(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert len(tops) == 2
    assert {top.split("-")[0] for top in tops} == {"egretta"}
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_the_wheel_imports_from_where_it_is_installed(installed):
    code = (
        "import egretta.workflows as w, egretta.jobs as j, egretta.kernels as k, egretta.engines as e, "
        "egretta.throttling as t; from egretta.workflows import Campaign; "
        "print(*(m.__file__ for m in (w, j, k, e, t)), sep='\\n')"
    )
    paths = run(installed, "-c", code, cwd=installed.parent).split()
    assert len(paths) == len(ROOMS)
    assert all(path.startswith(str(installed.parents[1])) for path in paths), paths


def test_the_wheel_brings_the_command(installed):
    version = run(installed.parent / "egretta", "--version", cwd=installed.parent)
    assert version.startswith("egretta ")


def test_types_are_checked_against_the_installed_package(installed, tmp_path):
    (tmp_path / "script.py").write_text(
        "from egretta.workflows import Campaign\nfrom egretta.jobs.unit import Unit\n"
        "reveal_type(Campaign)\nreveal_type(Unit.load('u.json').start)\n"
    )
    mypy = (sys.executable, "-m", "mypy", "--config-file=", "--python-executable", installed)
    cache = ROOT / ".mypy_cache" / "installed"
    shown = run(*mypy, "--strict", "--cache-dir", cache, "script.py", cwd=tmp_path)
    assert 'Revealed type is "Any"' not in shown
    assert "Campaign" in shown
    assert "int" in shown


def test_an_editable_install_gives_the_same_names(source, tmp_path):
    python = environment(tmp_path / "venv")
    install(python, "--no-build-isolation", "--editable", source, cwd=source)
    code = "import egretta.kernels.version as v, egretta.jobs.pipelines as p; print(v.__file__, p.__file__)"
    paths = run(python, "-c", code, cwd=tmp_path).split()
    assert paths == [
        str(source / "kernels" / "version.py"),
        str(source / "jobs" / "pipelines" / "__init__.py"),
    ]
