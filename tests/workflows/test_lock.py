import os
import signal
import subprocess
import sys

import pytest

from egretta.kernels.errors import SiteError, UsageError
from egretta.workflows.lock import exclusive, is_held

HOLD = """
import sys, time
from pathlib import Path
from egretta.workflows.lock import exclusive
with exclusive(Path(sys.argv[1]), "run"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path):
    path = tmp_path / "lock"
    assert not is_held(path)
    with exclusive(path, "run"):
        assert is_held(path)
        with pytest.raises(UsageError, match=f"egretta run.*process {os.getpid()}"), exclusive(path, "merge"):
            pass
    assert not is_held(path)
    with exclusive(path, "merge"):
        pass


def test_a_killed_holder_leaves_no_lock(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with exclusive(path, "run"):
        assert is_held(path)


def test_a_directory_that_cannot_be_made_is_a_site_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SiteError, match="cannot write"), exclusive(tmp_path / "file" / "out" / "lock", "run"):
        pass
