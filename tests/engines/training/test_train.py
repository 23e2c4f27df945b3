"""A short training of both networks, from simulated events to ONNX files that run."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'egretta[train]'")

from egretta.engines.opening import ENGINES, open_engine  # noqa: E402
from egretta.engines.training.__main__ import main  # noqa: E402
from egretta.engines.training.config import EmbeddingConfig, GnnConfig  # noqa: E402
from egretta.engines.training.embedding import distances_at_recall, train_embedding  # noqa: E402
from egretta.engines.training.gnn import build_graphs, predict, train_gnn  # noqa: E402
from egretta.engines.training.prepare import prepare  # noqa: E402
from egretta.engines.training.truth import TruthHits, load_truth, successors  # noqa: E402
from egretta.jobs.simulation.writing import simulate_velo  # noqa: E402
from egretta.kernels.errors import UsageError  # noqa: E402
from egretta.kernels.knn import nearest_neighbours  # noqa: E402
from egretta.kernels.version import __version__  # noqa: E402

EMBEDDING = EmbeddingConfig(steps=60, events_per_step=3)
GNN = GnnConfig(steps=60, events_per_step=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    simulate_velo(folder / "events.root", 6, seed=3, pile_up=1.0)
    prepare({"events": folder / "events.root"}, folder / "events.npz")
    return folder / "events.npz"


@pytest.fixture(scope="module")
def truth(data):
    return load_truth(data, ["events"])


class Losses:
    """What a training reports."""

    def __init__(self):
        self.values = []

    def __call__(self, network, step, loss):
        self.values.append(loss)


@pytest.fixture(scope="module")
def embedding(truth):
    losses = Losses()
    return train_embedding(truth, EMBEDDING, report=losses), losses.values


@pytest.fixture(scope="module")
def graphs(truth, embedding):
    model, _ = embedding
    d_max, _ = distances_at_recall(model, truth, 0.98)
    with torch.no_grad():
        query, key = model(torch.from_numpy(truth.position))
    return build_graphs(truth, query.numpy(), key.numpy(), d_max, 64, 0.02)


@pytest.fixture(scope="module")
def gnn(graphs):
    losses = Losses()
    return train_gnn(graphs, GNN, report=losses), losses.values


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_both_trainings_lower_the_loss(embedding, gnn):
    for _, losses in (embedding, gnn):
        assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])


def test_the_graph_network_learns_which_triplets_are_true(graphs, gnn):
    _, triplet = predict(gnn[0], graphs, n_events=4)
    true = graphs.triplet_label > 0
    assert 0 < true.sum() < len(true)
    # the chance that a true triplet scores above a false one
    rank = np.argsort(np.argsort(triplet))
    below = rank[true].sum() - true.sum() * (true.sum() - 1) / 2
    assert below / (true.sum() * (~true).sum()) > 0.8


def test_the_same_seed_gives_the_same_weights_and_another_does_not(truth, graphs, embedding, gnn):
    short = replace(EMBEDDING, steps=10)
    first = train_embedding(truth, short, report=Losses())
    assert same(first, train_embedding(truth, short, report=Losses()))
    assert not same(first, train_embedding(truth, replace(short, seed=2), report=Losses()))
    assert same(gnn[0], train_gnn(graphs, GNN, report=Losses()))


def test_d_max_keeps_the_wanted_share_of_true_pairs(truth, embedding):
    model, _ = embedding
    with torch.no_grad():
        query, key = (rows.numpy() for rows in model(torch.from_numpy(truth.position)))
    source, target = successors(truth)
    true = set(zip(source.tolist(), target.tolist(), strict=True))
    kept = []
    for recall in (0.9, 0.99):
        d_max, per_hit = distances_at_recall(model, truth, recall)
        edges = nearest_neighbours(truth.offsets, truth.module, query, key, d_max, len(truth.module))
        assert len(edges) / len(truth.module) == pytest.approx(per_hit, rel=1e-3)
        found = set(zip(edges.source.tolist(), edges.target.tolist(), strict=True))
        kept.append(len(found & true) / len(true))
    # weighted by how short the tracks are, so not exactly the plain share
    assert kept[0] == pytest.approx(0.9, abs=0.05)
    assert kept[1] == pytest.approx(0.99, abs=0.01)


def test_labels_are_true_where_all_hits_share_a_particle(truth, graphs):
    owners = [set(row[row >= 0].tolist()) for row in truth.particles]
    graph = graphs.graph
    for e in range(0, graph.n_edges, 7):
        shared = owners[graph.source[e]] & owners[graph.target[e]]
        assert graphs.edge_label[e] == bool(shared)
    for t in range(0, graph.n_triplets, 7):
        a, b = graph.first[t], graph.second[t]
        shared = owners[graph.source[a]] & owners[graph.target[a]] & owners[graph.target[b]]
        assert graphs.triplet_label[t] == bool(shared)


def test_one_command_writes_models_that_every_engine_runs_alike(data, truth, tmp_path, capsys):
    short = ["--embedding-steps", "40", "--gnn-steps", "20", "--recall", "0.95", "--threshold", "-0.5"]
    where = [
        "--data",
        str(data),
        "--train",
        "events",
        "--valid",
        "events",
        "--out",
        str(tmp_path / "new" / "m"),
    ]
    assert main(["train", *where, "--device", "cpu", "--seed", "7", *short]) == 0
    said = capsys.readouterr().out
    assert "precision" in said
    assert "neighbours a hit at recall 0.95" in said
    models = tmp_path / "new" / "m"
    opened = [
        [open_engine(name, models / f"velo-{m}.onnx") for m in ("embedding", "gnn")] for name in ENGINES
    ]
    for embedding, gnn in opened:
        settings = embedding.spec.settings
        assert (settings["k"], settings["kink_max"]) == ("64", "0.02")
        assert (settings["seed"], settings["steps"]) == ("7", "40")
        assert (settings["trained_on"], settings["egretta_version"]) == ("events", __version__)
        assert (gnn.spec.settings["threshold"], gnn.spec.settings["steps"]) == ("-0.5", "20")
    rows = [embedding.run({"position": truth.position}) for embedding, _ in opened]
    d_max = np.array(opened[0][0].spec.settings["d_max"].split(), np.float32)
    graph = build_graphs(truth, rows[0]["query"], rows[0]["key"], d_max, 64, 0.02).graph
    assert graph.n_triplets > 0
    index = {n: getattr(graph, n) for n in ("source", "target", "first", "second")}
    logits = [gnn.run({"position": truth.position, **index}) for _, gnn in opened]
    for outputs in (rows, logits):
        for name, expected in outputs[0].items():
            for other in outputs[1:]:
                np.testing.assert_allclose(other[name], expected, atol=1e-3)


def test_an_exported_network_computes_what_the_trained_one_does(truth, embedding, tmp_path):
    from egretta.engines.training.export import export_embedding

    export_embedding(embedding[0], tmp_path / "e.onnx", {})
    rows = open_engine("onnxruntime", tmp_path / "e.onnx").run({"position": truth.position})
    with torch.no_grad():
        query, key = embedding[0](torch.from_numpy(truth.position))
    np.testing.assert_allclose(rows["query"], query.numpy(), atol=1e-4)
    np.testing.assert_allclose(rows["key"], key.numpy(), atol=1e-4)


def test_the_exported_graph_network_computes_what_the_trained_one_does(truth, graphs, gnn, tmp_path):
    from egretta.engines.training.export import export_gnn

    export_gnn(gnn[0], tmp_path / "g.onnx", {})
    index = {n: getattr(graphs.graph, n) for n in ("source", "target", "first", "second")}
    logits = open_engine("onnxruntime", tmp_path / "g.onnx").run({"position": truth.position, **index})
    edge, triplet = predict(gnn[0], graphs, n_events=2)
    np.testing.assert_allclose(logits["gate_logit"], edge, atol=1e-3)
    np.testing.assert_allclose(logits["triplet_logit"], triplet, atol=1e-3)


def test_empty_events_do_not_disturb(truth):
    first, last = truth.offsets[0], truth.offsets[-1]
    padded = replace(truth, offsets=np.concatenate([[first] * 3, truth.offsets, [last] * 3]))
    # one event a step, so that some steps have nothing to learn from
    model = train_embedding(padded, replace(EMBEDDING, events_per_step=1, steps=20), report=Losses())
    d_max, _ = distances_at_recall(model, padded, 0.9)
    with torch.no_grad():
        query, key = model(torch.from_numpy(padded.position))
    graphs = build_graphs(padded, query.numpy(), key.numpy(), d_max, 64, 0.02)
    network = train_gnn(graphs, replace(GNN, events_per_step=1, steps=20), report=Losses())
    edge, triplet = predict(network, graphs, n_events=2)
    assert (len(edge), len(triplet)) == (graphs.graph.n_edges, graphs.graph.n_triplets)
    assert np.isfinite(edge).all()
    assert np.isfinite(triplet).all()


def test_events_without_particles_to_follow_are_refused(truth):
    alone = TruthHits(
        truth.offsets, truth.position, truth.module, np.full_like(truth.particles, -1), truth.n_stations
    )
    with pytest.raises(UsageError, match="no particle"):
        train_embedding(alone, EMBEDDING)


def test_the_command_says_what_is_wrong(data, tmp_path, capsys):
    where = ["--data", str(data), "--train", "others", "--valid", "events", "--out", str(tmp_path)]
    assert main(["train", *where]) == 2
    assert "no whole sample 'others'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", *where, "--recall", "1.5"])
    assert "1.5 is not between 0 and 1" in capsys.readouterr().err
