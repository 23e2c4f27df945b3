from pathlib import Path

import pytest

from egretta.kernels.errors import SpecError
from egretta.workflows.spec import load_spec

MINIMAL = """
[campaign]
name = "c"
pipeline = "velo"
[input]
files = ["a.root"]
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "campaign.toml"
        path.write_text(text)
        return path

    return write


def test_a_minimal_file_gets_sensible_defaults(write, tmp_path):
    spec = load_spec(write(MINIMAL))
    assert spec.output_directory == tmp_path / "out"
    assert spec.workers >= 1
    assert spec.splitting.by == "time"


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (MINIMAL + "[backend]\nworker = 2\n", ["[backend] worker", "unknown key", "'workers'"]),
        (MINIMAL + "[backend]\ntimeout = 2\n", ["[backend] timeout", "'unit_timeout_s'"]),
        (MINIMAL + "[outputs]\n", ["[outputs]", "unknown section", "'output'"]),
        (MINIMAL + "[backend]\nworkers = 0\n", ["[backend] workers", "given: 0"]),
        (MINIMAL + '[splitting]\nby = "entries"\n', ["[splitting]", "needs entries_per_unit"]),
        (MINIMAL + "[splitting]\nentries_per_unit = 3\n", ["no effect", '"time"']),
        (MINIMAL.replace('name = "c"', ""), ["[campaign] name is missing"]),
        (MINIMAL.replace('["a.root"]', "[]"), ["[input]", "no input"]),
        (MINIMAL.replace('"c"', '"a/b"'), ["[campaign] name"]),
        ("[campaign\n", ["not a TOML file"]),
        ("", ["[campaign] is missing", "[input] is missing"]),
    ],
)
def test_a_wrong_file_is_refused_with_the_key_and_what_to_write(write, text, fragments):
    path = write(text)
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)
    assert caught.value.hint


def test_a_missing_file_names_the_near_miss(write):
    path = write(MINIMAL)
    with pytest.raises(SpecError, match=r"no such campaign file(.|\n)*campaign\.toml"):
        load_spec(path.with_name("campain.toml"))


def test_command_line_beats_file_beats_environment_beats_default(write, monkeypatch):
    monkeypatch.setenv("EGRETTA_BACKEND_WORKERS", "7")
    monkeypatch.setenv("EGRETTA_BACKEND_MEMORY_MB", "700")
    monkeypatch.setenv("EGRETTA_RETRY_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("EGRETTA_SHARED_DATA", "/no/setting")
    path = write(MINIMAL + "[backend]\nworkers = 3\nmemory_mb = 900\n")
    spec = load_spec(path, {"backend.workers": 2})
    assert spec.backend.workers == 2
    assert spec.backend.memory_mb == 900
    assert spec.retry.max_attempts == 9
    assert spec.backend.threads == 1


def test_a_misspelt_environment_variable_is_refused(write, monkeypatch):
    monkeypatch.setenv("EGRETTA_BACKEND_WORKER", "7")
    with pytest.raises(SpecError, match=r"EGRETTA_BACKEND_WORKERS"):
        load_spec(write(MINIMAL))


def test_a_setting_of_no_section_is_refused(write):
    with pytest.raises(SpecError, match="no setting"):
        load_spec(write(MINIMAL), {"bakend.workers": 2})


def test_the_configuration_hash_follows_the_results_and_nothing_else(write):
    base = load_spec(write(MINIMAL)).config_hash
    same = MINIMAL.replace('"c"', '"d"') + "[backend]\nworkers = 1\n[output]\ndirectory = 'x'\n"
    assert load_spec(write(same)).config_hash == base
    for changed in (
        MINIMAL.replace("velo", "emtrk"),
        MINIMAL.replace("a.root", "b.root"),
        MINIMAL + "[pipeline]\nk = 3\n",
        MINIMAL + "[inference]\nengine = 'x'\n",
        MINIMAL + "[splitting]\ntarget_wall_s = 10\n",
    ):
        assert load_spec(write(changed)).config_hash != base


def test_another_network_under_the_same_path_is_another_configuration(write):
    path = write(MINIMAL + '\n[inference]\nmodels = { gnn = "mine/gnn.onnx" }\n')
    model = path.parent / "mine" / "gnn.onnx"
    hashes = [load_spec(path).config_hash]
    model.parent.mkdir()
    for content in (b"one", b"another", b"one"):
        model.write_bytes(content)
        hashes.append(load_spec(path).config_hash)
    assert len(set(hashes)) == 3
    assert hashes[1] == hashes[3]


def test_model_paths_are_relative_to_the_campaign_file_and_names_stay_names(write, tmp_path):
    text = MINIMAL + '[inference]\nmodels = {gnn = "m/gnn.onnx", embedding = "velo-embedding"}\n'
    models = load_spec(write(text)).pipeline_options["inference"]["models"]
    assert models == {"gnn": str(tmp_path / "m" / "gnn.onnx"), "embedding": "velo-embedding"}
