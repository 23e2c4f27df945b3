"""The retry policy: what becomes of a unit whose attempt failed. Pure; a table by failure class.

===========  =====================================================  =============================
class        tried again                                            when its attempts are used up
===========  =====================================================  =============================
transient    after a delay that doubles                             failed
site         after a delay that doubles                             failed
resource     with more memory or time, whichever ran out; after a   failed
             delay if it was something else (disk)
data         never: the file will not change by itself              quarantined at once
code         never: the code will not change by itself              failed at once
===========  =====================================================  =============================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egretta.jobs.manifest import Failure
from egretta.kernels.errors import FailureClass
from egretta.workflows.ledger import Verdict
from egretta.workflows.spec import RetrySection
from egretta.workflows.states import UnitState

OUT_OF_TIME = "OutOfTime"
OUT_OF_MEMORY = "OutOfMemory"
"""Names that the backend gives to its own resource failures; a job names the exception."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the failed attempt was allowed to take."""

    memory_mb: int
    timeout_s: float


def decide(
    failure: Failure,
    failures: int,
    limits: Limits,
    policy: RetrySection,
    now: float,
) -> Verdict:
    """Decide for a unit that has now failed ``failures`` times (this one included)."""
    failure_class = FailureClass(failure.failure_class)
    if failure_class is FailureClass.DATA:
        return Verdict(UnitState.QUARANTINED, why="the input is at fault; trying again cannot help")
    if failure_class is FailureClass.CODE:
        return Verdict(UnitState.FAILED, why="the code is at fault; trying again cannot help")
    if failures >= policy.max_attempts:
        return Verdict(UnitState.FAILED, why=f"failed {failures} times; no attempts are left")
    left = f"attempt {failures + 1} of {policy.max_attempts}"
    if failure.error == OUT_OF_TIME:
        timeout_s = limits.timeout_s * policy.resource_factor
        return Verdict(UnitState.PENDING, now, timeout_s=timeout_s, why=f"{left} with {timeout_s:g} s")
    if failure_class is FailureClass.RESOURCE and _lacked_memory(failure):
        memory_mb = round(limits.memory_mb * policy.resource_factor)
        return Verdict(UnitState.PENDING, now, memory_mb=memory_mb, why=f"{left} with {memory_mb} MB")
    delay_s = min(policy.delay_s * 2.0 ** (failures - 1), policy.max_delay_s)
    return Verdict(UnitState.PENDING, not_before=now + delay_s, why=f"{left} in {delay_s:g} s")


def _lacked_memory(failure: Failure) -> bool:
    # A job's ResourceError is about memory or about the disk; only its message says which.
    return failure.error == OUT_OF_MEMORY or "memory" in failure.message


def pause_reason(outcomes: Sequence[bool], policy: RetrySection) -> str | None:
    """Why the campaign should pause, or None. ``outcomes``: True for each attempt that succeeded, in order.

    It pauses when the last ``pause_after_failures`` attempts all failed: whatever is wrong, more attempts
    would only find it again. 0 turns this off.
    """
    window = policy.pause_after_failures
    if window == 0 or len(outcomes) < window or any(outcomes[-window:]):
        return None
    return f"the last {window} attempts all failed"
