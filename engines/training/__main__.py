"""Train the velo pipeline's models: python -m egretta.engines.training prepare, then train."""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from egretta.engines.training.config import TrainingConfig
from egretta.kernels.errors import EgrettaError, SiteError, UsageError

_USAGE_EXIT = 2


def main(words: list[str] | None = None) -> int:
    """Run the command; 0 if it did what was asked."""
    arguments = _parser().parse_args(words)
    try:
        arguments.run(arguments)
    except EgrettaError as error:
        print(f"error: {error}", file=sys.stderr)
        return _USAGE_EXIT if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


def _prepare(arguments: argparse.Namespace) -> None:
    from egretta.engines.training.prepare import prepare, samples_of

    sizes = prepare(samples_of(arguments.files), arguments.out)
    for name, (n_events, n_hits) in sizes.items():
        print(f"{name}: {n_events} events, {n_hits} hits")
    print(f"written to {arguments.out}")


def _train(arguments: argparse.Namespace) -> None:
    for library in ("torch", "onnx"):
        if importlib.util.find_spec(library) is None:
            raise SiteError(f"cannot train: {library} is not installed", hint="pip install 'egretta[train]'")
    from egretta.engines.training.train import train

    defaults = TrainingConfig()
    config = TrainingConfig(
        replace(defaults.embedding, seed=arguments.seed, steps=arguments.embedding_steps),
        replace(defaults.gnn, seed=arguments.seed, steps=arguments.gnn_steps),
        arguments.recall,
        arguments.k,
        arguments.kink_max,
        arguments.threshold,
    )
    device = _device(arguments.device)
    print(f"training on {device}, seed {arguments.seed}", flush=True)
    result = train(arguments.data, arguments.train, arguments.valid, arguments.out, config, device)
    kept = {"edges left open by the gate": result.edges}
    kept[f"triplets above {config.threshold:g}"] = result.triplets
    for name, score in kept.items():
        print(
            f"valid {name}: precision {score.precision:.4f}, "
            f"recall {score.recall:.4f} of the {score.true} true ones in the graph"
        )
    print(f"written to {result.embedding} and {result.gnn}")


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise SiteError("PyTorch sees no CUDA device", hint="use --device cpu, or a PyTorch built for CUDA")
    return name


def _count(lowest: int) -> Callable[[str], int]:
    def read(word: str) -> int:
        value = int(word)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"{value} is less than {lowest}")
        return value

    read.__name__ = "whole number"
    return read


def _fraction(word: str) -> float:
    value = float(word)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not between 0 and 1")
    return value


def _positive(word: str) -> float:
    value = float(word)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{value} is not positive and finite")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m egretta.engines.training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "prepare",
        help="gather events with truth from ROOT files into one .npz",
        description="Gather events with truth (hits and the particles that left them) from ROOT files into "
        "one .npz, so that training needs neither ROOT nor uproot.",
    )
    command.add_argument(
        "files",
        nargs="+",
        metavar="[NAME=]FILE",
        help="a ROOT file with the tree Velo; NAME is its stem if left out",
    )
    command.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="where to write")
    command.set_defaults(run=_prepare)

    defaults = TrainingConfig()
    command = commands.add_parser(
        "train",
        help="train both networks and write them as ONNX files",
        description="Train the embedding, then the graph network on the graphs that the embedding gives, and "
        "write velo-embedding.onnx and velo-gnn.onnx with the settings that belong to them.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    required = command.add_argument_group("what to train on")
    none = argparse.SUPPRESS
    required.add_argument(
        "--data", type=Path, required=True, metavar="FILE.npz", default=none, help="what prepare wrote"
    )
    required.add_argument(
        "--train", nargs="+", required=True, metavar="SAMPLE", default=none, help="samples to train on"
    )
    required.add_argument(
        "--valid",
        nargs="+",
        required=True,
        metavar="SAMPLE",
        default=none,
        help="samples to choose d_max and measure on",
    )
    required.add_argument(
        "--out", type=Path, required=True, metavar="DIR", default=none, help="folder for the two ONNX files"
    )
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    command.add_argument(
        "--seed",
        type=_count(0),
        default=defaults.embedding.seed,
        help="of weights and of the choice of events",
    )
    settings = command.add_argument_group("settings written into the models")
    settings.add_argument(
        "--recall",
        type=_fraction,
        default=defaults.recall,
        help="share of true edges that d_max keeps on --valid",
    )
    settings.add_argument("--k", type=_count(1), default=defaults.k, help="most neighbours of a hit")
    settings.add_argument(
        "--kink-max", type=_positive, default=defaults.kink_max, help="largest change of slope in a triplet"
    )
    settings.add_argument(
        "--threshold",
        type=float,
        default=defaults.threshold,
        help="triplet logit above which a triplet is kept",
    )
    length = command.add_argument_group("length of training")
    length.add_argument("--embedding-steps", type=_count(10), default=defaults.embedding.steps, help="steps")
    length.add_argument("--gnn-steps", type=_count(10), default=defaults.gnn.steps, help="steps")
    command.set_defaults(run=_train)
    return parser


if __name__ == "__main__":
    sys.exit(main())
