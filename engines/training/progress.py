"""What a training says while it runs."""

from __future__ import annotations

from collections.abc import Callable

# Called with the network's name, the step and its loss.
Report = Callable[[str, int, float], None]


def print_loss(network: str, step: int, loss: float) -> None:
    """One line on standard output."""
    print(f"{network} step {step:6d}  loss {loss:.4f}", flush=True)


def due(step: int, steps: int) -> bool:
    """Whether to report: some twenty times, at the first and at the last step.

    Rarely, because to ask a GPU for its loss is to wait for it.
    """
    return step % max(1, steps // 20) == 0 or step == steps - 1
