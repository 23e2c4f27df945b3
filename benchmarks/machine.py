"""What the figures were made on and with."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("numpy", "numba", "onnxruntime", "uproot", "awkward", "scipy", "velopix")


def lines() -> list[str]:
    """Machine, versions, date, load: one a line."""
    cores = len(os.sched_getaffinity(0))
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    versions = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    one, five, _ = os.getloadavg()
    return [
        f"Machine: {_cpu()}, {cores} cores, {memory_gb:.0f} GB; {platform.system()} {platform.release()}",
        f"Versions: egretta {_version('egretta')} ({_commit()}), Python {platform.python_version()}, "
        + versions,
        f"Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; load before the first benchmark {one:.2f} (1 min), "
        f"{five:.2f} (5 min)",
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    """Model, with family and model number: virtual machines often give no better name."""
    found: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    name = found.get("model name", platform.machine())
    if "cpu family" in found:
        name += f" (family {found['cpu family']}, model {found.get('model', '?')})"
    return f"{name} at {found['cpu MHz']} MHz" if "cpu MHz" in found else name


def _commit() -> str:
    def git(*words: str) -> str:
        here = Path(__file__).resolve().parent
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout

    try:
        changed = " with changes" if git("status", "--porcelain", "--untracked-files=no").strip() else ""
        return f"commit {git('rev-parse', '--short', 'HEAD').strip()}{changed}"
    except (OSError, subprocess.CalledProcessError):
        return "no git checkout"
