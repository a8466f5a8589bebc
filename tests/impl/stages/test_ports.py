"""The ports of stages in every state; tests/conformance/test_port_machine.py has Pekko's cases, and the model."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import LocalProtocolError
from permitflow.stages.core.ports import EMPTY, IN_CLOSED, IN_READY, OUT_CLOSED, OUT_READY, PULLING, PUSHING
from tests.support.port_cases import OneConnection

CALLS = ("pull", "push", "grab", "complete", "fail", "cancel", "step")
TOKEN = (IN_READY, PULLING, PUSHING, OUT_READY)


def after(calls: Sequence[str]) -> OneConnection:
    """A connection after some calls, of which those that are refused change nothing."""
    connection = OneConnection()
    for call in calls:
        with suppress(LocalProtocolError):
            connection.play(call)
    return connection


def reachable() -> dict[tuple[object, ...], tuple[str, ...]]:
    """Every state of a connection, with the shortest way into it."""
    found: dict[tuple[object, ...], tuple[str, ...]] = {}
    ahead: deque[tuple[str, ...]] = deque([()])
    while ahead:
        calls = ahead.popleft()
        connection = after(calls)
        port = connection.port
        key = (port.state, port.element is EMPTY, port.failure is None, connection.island.has_events)
        if key not in found:
            found[key] = calls
            ahead.extend((*calls, call) for call in CALLS)
    return found


def test_each_state_has_one_token_and_an_event_for_news() -> None:
    states = reachable()
    assert len(states) > 32
    for calls in states.values():
        connection = after(calls)
        state = connection.port.state
        assert sum(1 for flag in TOKEN if state & flag) == 1, calls
        is_one_closed = bool(state & IN_CLOSED) != bool(state & OUT_CLOSED)
        is_on_its_way = bool(state & (PULLING | PUSHING)) and not state & (IN_CLOSED | OUT_CLOSED)
        if not state & IN_CLOSED or not state & OUT_CLOSED:
            assert connection.island.has_events is (is_one_closed or is_on_its_way), calls
        connection.heard.clear()
        assert not connection.island.run(3), f"events go on for ever after {calls}"
        assert bool(connection.port.state & IN_CLOSED) == bool(connection.port.state & OUT_CLOSED), calls
        assert len(connection.heard) <= 2, calls


@given(calls=st.lists(st.sampled_from(CALLS), max_size=30))
def test_an_accepted_element_arrives_before_the_end(calls: list[str]) -> None:
    connection, accepted, is_cancelled, heard = OneConnection(), 0, False, list[str]()
    for call in calls:
        is_wanted = connection.port.state & (OUT_READY | IN_CLOSED) == OUT_READY
        with suppress(LocalProtocolError):
            connection.play(call)
            accepted += call == "push" and is_wanted
            is_cancelled = is_cancelled or call == "cancel"
    connection.island.run(10)
    heard = connection.heard
    assert heard.count("element") == accepted or (is_cancelled and heard.count("element") == accepted - 1)
    ends = [word for word in heard if word in ("end", "failure", "cancelled")]
    assert len(ends) <= 1
    assert heard[len(heard) - len(ends) :] == ends


def test_a_call_that_breaks_a_rule_says_which_rule() -> None:
    port = OneConnection().port
    with pytest.raises(LocalProtocolError, match="was not asked for an element; look at is_asked first"):
        port.push("element")
    port.pull()
    with pytest.raises(LocalProtocolError, match="has already asked"):
        port.pull()
    assert "Pulling" in repr(port)
