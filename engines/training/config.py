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
    """The graph network and its training.

    ``states`` are the widths of an edge's state before the first step and after each, ``messages`` those of
    the messages in each step and in the read-out, ``rivals`` those of the rivals in each step. The gate
    after the first step, which closes for most edges, is trained with true edges weighing
    ``gate_positive_weight`` times false ones: it closes below a probability of about 1 in that many.
    """

    states: tuple[int, ...] = (8, 16, 16, 16)
    messages: tuple[int, ...] = (8, 16, 16, 16)
    rivals: tuple[int, ...] = (4, 8, 8)
    gate_positive_weight: float = 30.0
    steps: int = 13000
    events_per_step: int = 12
    learning_rate: float = 4e-3
    seed: int = 1

    def __post_init__(self) -> None:
        if not len(self.states) == len(self.messages) == len(self.rivals) + 1 > 1:
            raise ValueError(
                "states and messages need one width more than rivals, and rivals at least one: "
                f"{self.states}, {self.messages}, {self.rivals}"
            )


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """What defines both models; the defaults are the shipped models'.

    ``recall`` is the share of true edges that ``d_max`` keeps on the valid samples, ``k`` the most
    neighbours of a hit, ``kink_max`` the largest change of slope in a triplet of a track along the beam and
    through it, ``threshold`` the triplet logit above which the pipeline keeps a triplet.
    """

    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    gnn: GnnConfig = field(default_factory=GnnConfig)
    recall: float = 0.985
    k: int = 64
    kink_max: float = 0.02
    threshold: float = 1.5
