import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.jobs.manifest import Failure
from egretta.kernels.errors import FailureClass
from egretta.workflows.retry import OUT_OF_TIME, Limits, decide, pause_reason
from egretta.workflows.spec import RetrySection
from egretta.workflows.states import TERMINAL, UnitState

LIMITS = Limits(memory_mb=1000, timeout_s=100.0)


def failure(kind, error="E", message="why"):
    return Failure(kind, error, message)


POLICY = RetrySection(max_attempts=3, delay_s=2.0, max_delay_s=3.0, resource_factor=1.5)


@pytest.mark.parametrize("kind", [FailureClass.TRANSIENT, FailureClass.SITE])
def test_what_may_pass_is_tried_again_ever_later_until_attempts_are_used_up(kind):
    verdicts = [decide(failure(kind), failures, LIMITS, POLICY, now=10.0) for failures in (1, 2, 3)]
    assert [v.state for v in verdicts] == [UnitState.PENDING, UnitState.PENDING, UnitState.FAILED]
    assert [v.not_before for v in verdicts[:2]] == [12.0, 13.0]


def test_out_of_memory_is_tried_with_more_memory_and_out_of_time_with_more_time():
    memory = decide(failure("resource", "ResourceError", "out of memory"), 1, LIMITS, POLICY, now=0.0)
    assert (memory.state, memory.memory_mb, memory.timeout_s) == (UnitState.PENDING, 1500, None)
    time = decide(failure("resource", OUT_OF_TIME), 1, LIMITS, POLICY, now=0.0)
    assert (time.state, time.memory_mb, time.timeout_s) == (UnitState.PENDING, None, 150.0)


def test_a_full_disk_is_waited_for_not_answered_with_memory():
    verdict = decide(failure("resource", "ResourceError", "No space left on device"), 1, LIMITS, POLICY, 0.0)
    assert (verdict.state, verdict.not_before, verdict.memory_mb) == (UnitState.PENDING, 2.0, None)


def test_bad_data_is_quarantined_and_bad_code_fails_at_the_first_attempt():
    assert decide(failure("data"), 1, LIMITS, POLICY, 0.0).state is UnitState.QUARANTINED
    assert decide(failure("code"), 1, LIMITS, POLICY, 0.0).state is UnitState.FAILED


@given(st.sampled_from(FailureClass), st.integers(1, 50), st.integers(1, 10))
def test_every_unit_comes_to_an_end_and_every_verdict_has_a_reason(kind, failures, most):
    verdict = decide(failure(kind), failures, LIMITS, RetrySection(max_attempts=most), now=0.0)
    assert verdict.why
    if failures >= most:
        assert verdict.state in TERMINAL


def test_the_campaign_pauses_when_the_latest_attempts_all_failed():
    policy = RetrySection(pause_after_failures=3)
    assert pause_reason([False, False], policy) is None
    assert pause_reason([True, False, False], policy) is None
    assert "3 attempts" in (pause_reason([True, False, False, False], policy) or "")
    assert pause_reason([False] * 50, RetrySection(pause_after_failures=0)) is None
