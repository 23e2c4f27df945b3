"""Whatever is wrong with a file is said clearly and has its class; what may pass is tried again."""

import functools
import http.server
import re
import sys
import threading

import awkward as ak
import numpy as np
import pytest
import uproot

from egretta.jobs.readers import open_source, transport
from egretta.kernels.encoding import encode_retina
from egretta.kernels.errors import (
    CorruptInputError,
    MissingInputError,
    ResourceError,
    SiteError,
    TransientError,
    UsageError,
)
from egretta.kernels.mdf import encode_events

CONTENT = np.arange(20_000.0)


@pytest.fixture
def hits_file(tmp_path):
    path = tmp_path / "hits.root"
    with uproot.recreate(path) as file:
        hits = ak.zip({key: ak.unflatten(CONTENT, [len(CONTENT)]) for key in ("x", "y", "z", "module")})
        file.mktree("Velo", {"hit": hits.type.content})
        file["Velo"].extend({"hit": hits})
    return path


@pytest.fixture
def mdf_file(tmp_path):
    path = tmp_path / "events.mdf"
    path.write_bytes(
        encode_events(
            encode_retina(np.array([0, 1, 3]), [1, 2, 3], [4, 5, 6], [7, 8, 9], [0, 0, 0], [0, 0, 0])
        )
    )
    return path


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(transport, "LONGEST_WAIT_S", 0.002)


def test_a_missing_file_and_a_folder_are_missing_input(tmp_path):
    with pytest.raises(MissingInputError, match=r"nothing\.root: no such file"):
        open_source(str(tmp_path / "nothing.root"))
    with pytest.raises(MissingInputError, match="directory"):
        open_source(str(tmp_path))


def test_an_empty_file_is_told_as_such(tmp_path):
    (tmp_path / "empty.root").write_bytes(b"")
    with pytest.raises(CorruptInputError, match=r"empty\.root is empty"):
        open_source(str(tmp_path / "empty.root"))


@pytest.mark.parametrize("content", [b"hello", b"x" * 1000, bytes(100), b"PAR1" + bytes(96)])
def test_a_file_of_another_format_is_refused(tmp_path, content):
    (tmp_path / "other.root").write_bytes(content)
    with pytest.raises(CorruptInputError, match="neither a ROOT file nor LHCb MDF"):
        open_source(str(tmp_path / "other.root"))


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.99])
def test_a_root_file_truncated_anywhere_is_refused_at_once(hits_file, fraction):
    data = hits_file.read_bytes()
    hits_file.write_bytes(data[: max(40, int(fraction * len(data)))])
    with pytest.raises(CorruptInputError, match=re.escape(str(hits_file))):
        open_source(str(hits_file))


def test_a_damaged_basket_is_corrupt_input(hits_file):
    data = bytearray(hits_file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    hits_file.write_bytes(data)
    with (
        pytest.raises(CorruptInputError, match=re.escape(str(hits_file))),
        open_source(str(hits_file)) as source,
    ):
        list(source.batches(0, 1, 1))


def test_an_mdf_has_no_tree(mdf_file):
    with pytest.raises(UsageError, match="no tree"):
        open_source(str(mdf_file), "Velo")


def test_paths_with_colons_and_file_urls_open(hits_file):
    odd = hits_file.with_name("run:1.root")
    hits_file.rename(odd)
    for path in (str(odd), f"file://{odd}"):
        with open_source(path) as source:
            assert source.n_entries == 1


def test_xrootd_without_its_library_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec_xrootd", None)
    with pytest.raises(SiteError) as caught:
        open_source("root://localhost:1//store/file.root")
    assert "egretta[xrootd]" in caught.value.hint


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ConnectionRefusedError(111, "refused"), TransientError),
        (TimeoutError("too slow"), TransientError),
        (OSError(116, "stale file handle"), TransientError),
        (OSError("[FATAL] Connection error"), TransientError),
        (OSError("[ERROR] Server responded with an error: [3011] No such file"), MissingInputError),
        (PermissionError(13, "no"), SiteError),
        (MemoryError(), ResourceError),
        (OSError("expected Chunk of length 403"), CorruptInputError),
        (MissingInputError("ours"), MissingInputError),
    ],
)
def test_errors_of_libraries_get_their_class(raised, expected):
    with pytest.raises(expected), transport.reading("root://server//file.root", "read"):
        raise raised


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (503, TransientError),
        (429, TransientError),
        (403, SiteError),
        (404, MissingInputError),
        (418, CorruptInputError),
    ],
)
def test_http_answers_get_their_class(status, expected):
    error = ValueError("answer")
    error.status = status
    with pytest.raises(expected), transport.reading("https://server/file.root", "read"):
        raise error


def test_what_may_pass_is_tried_again_and_only_that():
    calls = []

    def call(errors):
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "answer"

    assert transport.retried(lambda: call([TransientError("once"), TransientError("twice")])) == "answer"
    assert len(calls) == 3
    calls.clear()
    with pytest.raises(TransientError, match="4"):
        transport.retried(lambda: call([TransientError(str(i + 1)) for i in range(9)]))
    assert len(calls) == transport.ATTEMPTS
    calls.clear()
    with pytest.raises(CorruptInputError):
        transport.retried(lambda: call([CorruptInputError("for good")] * 9))
    assert len(calls) == 1


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves ranges of files, and fails the first ``fail`` requests."""

    fail = 0
    ranges = True

    def do_GET(self):
        cls = type(self)
        if cls.fail > 0:
            cls.fail -= 1
            self.send_error(503)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not (self.ranges and wanted):
            super().do_GET()
            return
        with open(self.translate_path(self.path), "rb") as file:  # noqa: PTH123 - the handler's own way
            data = file.read()
        first = int(wanted[1])
        part = data[first : int(wanted[2]) + 1 if wanted[2] else None]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)

    def end_headers(self):
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, *_):
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that hangs up early is no failure of the test."""


@pytest.fixture
def served(tmp_path):
    handler = type("Handler", (Files,), {})
    server = QuietServer(("127.0.0.1", 0), functools.partial(handler, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_files_are_read_over_http(served, hits_file, mdf_file):
    url, _ = served
    with open_source(f"{url}/{hits_file.name}") as source:
        [batch] = source.batches(0, 1, 1)
        assert np.array_equal(batch.x, CONTENT.astype(np.float32))
    with open_source(f"{url}/{mdf_file.name}") as source, open_source(str(mdf_file)) as local:
        assert source.uuid == local.uuid
        [batch] = source.batches(0, 2, 2)
        assert np.array_equal(batch.words, next(iter(local.batches(0, 2, 2))).words)


def test_a_server_that_fails_for_a_while_is_asked_again(served, mdf_file):
    url, handler = served
    handler.fail = 2
    with open_source(f"{url}/{mdf_file.name}") as source:
        handler.fail = 2
        assert next(iter(source.batches(0, 2, 2))).n_events == 2


def test_a_server_that_is_not_there_is_transient():
    with pytest.raises(TransientError):
        open_source("http://127.0.0.1:9/file.root")


def test_what_a_server_does_not_have_is_missing(served):
    with pytest.raises(MissingInputError):
        open_source(f"{served[0]}/nothing.root")


def test_a_server_without_ranges_is_the_sites_fault(served, hits_file):
    url, handler = served
    handler.ranges = False
    with pytest.raises(SiteError, match="ranges"):
        open_source(f"{url}/{hits_file.name}")
