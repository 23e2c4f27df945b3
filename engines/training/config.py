"""What defines a training. The defaults are those of the shipped models."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """The embedding network and its training.

    ``hidden`` is the width of its layers, ``dimensions`` that of queries and keys. A step takes
    ``events_per_step`` events; a true pair weighs ``positive_weight`` times a false one, times a factor
    for the length of its track.
    """

    hidden: int = 24
    dimensions: int = 5
    steps: int = 5000
    events_per_step: int = 8
    learning_rate: float = 8e-3
    positive_weight: float = 8.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class GnnConfig:
    """The graph network, whose ``state``, ``message`` and ``rival`` are widths, and its training."""

    state: int = 16
    message: int = 16
    rival: int = 8
    message_steps: int = 2
    steps: int = 16000
    events_per_step: int = 12
    learning_rate: float = 4e-3
    seed: int = 1


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """What defines both models; the defaults are the shipped models'.

    ``recall`` is the share of true edges that ``d_max`` keeps on the valid samples, ``k`` the most
    neighbours of a hit, ``kink_max`` the largest change of slope in a triplet of a track along the beam and
    through it, ``threshold`` the triplet logit above which the pipeline keeps a triplet.
    """

    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    gnn: GnnConfig = field(default_factory=GnnConfig)
    recall: float = 0.987
    k: int = 64
    kink_max: float = 0.02
    threshold: float = 1.0
