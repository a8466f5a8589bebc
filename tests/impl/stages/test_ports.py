"""The port machine, case by case as in Pekko's GraphInterpreterPortsSpec.

A case is a run of one connection: calls (``pull``, ``push``, ``grab``, ``complete``, ``fail``, ``cancel``), calls that
are refused (``!push``), one event (``step``) or all of them (``run``) with what the stages then hear (``->asked``), and
the flags that hold (``[aP]``): of the outlet, a for asked, c for closed; of the inlet, A for available, P for pulled, C
for closed.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import LocalProtocolError
from permitflow.stages import Connection, Stage
from permitflow.stages.core.ports import EMPTY, IN_CLOSED, IN_READY, OUT_CLOSED, OUT_READY, PULLING, PUSHING, Island

CASES = {
    "push and pull": """
        [] !push !grab
        pull ->nothing [P] !pull !push !grab
        run ->asked [aP] !pull !grab
        push ->nothing [P] !pull !push !grab
        run ->element [A] !push
        grab ->nothing [] !push !grab""",
    "a pull drops an element that was not grabbed": "pull step push step ->asked,element pull !grab",
    "complete while the inlet is ready": """
        complete ->nothing [c] !push
        run ->end [cC] !pull !push !grab
        cancel run ->nothing [cC] !pull !push !grab
        complete run ->nothing [cC] !pull !push !grab""",
    "complete while the outlet is ready": """
        pull run ->asked [aP] complete ->nothing [cP] !push
        run ->end [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "complete while a pull is in flight": """
        pull [P] complete ->nothing [cP] !push
        run ->end [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "complete while a push is in flight": """
        pull run ->asked push [P] complete ->nothing [cP] !push
        step ->element [cA] !push grab !grab
        step ->end [cC] !pull !push !grab
        complete run ->nothing [cC] !pull !push !grab""",
    "complete while a push is in flight, and the element is not grabbed": """
        pull run ->asked push complete step ->element step ->end [cAC] grab [cC] !grab""",
    "complete while a push is in flight, and the inlet asks again": """
        pull run ->asked push complete step ->element grab pull
        run ->end [cC] !pull !push !grab""",
    "pull while completing": "complete pull [cP] run ->end [cC] !pull !push !grab",
    "cancel while the inlet is ready": """
        cancel ->nothing [C] !pull !grab
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "cancel while the outlet is ready": """
        pull run ->asked [aP] cancel ->nothing [aC] !pull !grab
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "cancel while a pull is in flight": """
        pull cancel ->nothing [C] !push !grab
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "cancel while a push is in flight": """
        pull run ->asked push [P] cancel ->nothing [C] !pull
        run ->cancelled [cC] !pull !push !grab
        complete run ->nothing [cC] cancel run ->nothing [cC] !pull !push !grab""",
    "push while cancelling": "pull run ->asked cancel push [C] run ->cancelled [cC] !pull !push !grab",
    "cancel drops an element that was not grabbed": """
        pull run push run ->asked,element cancel ->nothing [C] !pull !grab
        run ->cancelled [cC] !pull !push !grab""",
    "cancel, then complete": "cancel complete run ->nothing [cC] !pull !push !grab",
    "complete, then cancel": "complete cancel run ->nothing [cC] !pull !push !grab",
    "push and complete, cancelled in flight": """
        pull run ->asked push complete cancel run ->nothing [cC] !pull !push !grab""",
    "push and complete, cancelled after the element": """
        pull run ->asked push complete step ->element [cA] !push grab
        cancel run ->nothing [cC] !pull !push !grab""",
    "grab before the element arrives": "pull run push !grab",
    "grab after a cancellation": "pull run push cancel run !grab",
    "fail while the inlet is ready": """
        fail ->nothing [c] !push
        run ->error [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "fail while the outlet is ready": """
        pull run ->asked [aP] fail ->nothing [cP] !push
        run ->error [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "fail while a pull is in flight": """
        pull [P] fail ->nothing [cP] !push
        run ->error [cC] !pull !push !grab
        cancel run ->nothing [cC] complete run ->nothing [cC] !pull !push !grab""",
    "fail while a push is in flight": """
        pull run ->asked push [P] fail ->nothing [cP] !push
        step ->element [cA] !push grab !grab
        step ->error [cC] !pull !push !grab
        complete run ->nothing [cC] !pull !push !grab""",
    "fail while a push is in flight, and the element is not grabbed": """
        pull run ->asked push fail step ->element step ->error [cAC] grab [cC] !grab""",
    "fail while a push is in flight, and the inlet asks again": """
        pull run ->asked push fail step ->element grab pull
        run ->error [cC] !pull !push !grab""",
    "pull while failing": "fail pull [cP] run ->error [cC] !pull !push !grab",
    "cancel, then fail": "cancel fail run ->nothing [cC] !pull !push !grab",
    "fail, then cancel": "fail cancel run ->nothing [cC] !pull !push !grab",
    "push and fail, cancelled in flight": """
        pull run ->asked push fail cancel run ->nothing [cC] !pull !push !grab""",
    "push and fail, cancelled after the element": """
        pull run ->asked push fail step ->element [cA] !push grab
        cancel run ->nothing [cC] !pull !push !grab""",
}
ELEMENT = object()
ERROR = OSError("of the outlet")


class Listener(Stage[object, object]):
    """Notes what it hears, and does nothing."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self.heard = heard

    def on_push(self, inlet: Connection[object]) -> None:
        # An assertion would only fail the stage.
        self.heard.append("element" if inlet.element is ELEMENT else "another element")

    def on_pull(self, outlet: Connection[object]) -> None:
        self.heard.append("asked")

    def on_upstream_finish(self, inlet: Connection[object]) -> None:
        self.heard.append("end")

    def on_upstream_failure(self, inlet: Connection[object], error: BaseException) -> None:
        self.heard.append("error" if error is ERROR else "another error")

    def on_downstream_finish(self, outlet: Connection[object]) -> None:
        self.heard.append("cancelled")


class OneConnection:
    """A connection between two listeners."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.island = Island()
        self.port: Connection[object] = self.island.connect(Listener(self.heard), Listener(self.heard))

    def call(self, name: str) -> None:
        arguments: dict[str, tuple[Any, ...]] = {"push": (ELEMENT,), "fail": (ERROR,)}
        result = getattr(self.port, name)(*arguments.get(name, ()))
        assert name != "grab" or result is ELEMENT

    def flags(self) -> str:
        port = self.port
        held = {
            "a": port.is_asked,
            "c": port.is_out_closed,
            "A": port.is_available,
            "P": port.has_been_pulled,
            "C": port.is_in_closed,
        }
        return "".join(letter for letter, holds in held.items() if holds)

    def perform(self, word: str) -> None:
        if word.startswith("["):
            assert self.flags() == word[1:-1]
        elif word.startswith("!"):
            before = (self.port.state, self.port.element)
            with pytest.raises(LocalProtocolError, match=f"^{word[1:]}: "):
                self.call(word[1:])
            assert (self.port.state, self.port.element) == before
        elif word.startswith("->"):
            assert (",".join(self.heard) or "nothing") == word[2:]
            self.heard.clear()
        elif word == "step":
            self.island.run(1)
        elif word == "run":
            assert not self.island.run(100)
        else:
            self.call(word)


@pytest.mark.parametrize("case", CASES)
def test_a_connection_behaves_as_in_the_table(case: str) -> None:
    connection = OneConnection()
    for word in CASES[case].split():
        connection.perform(word)


def test_the_table_has_all_32_cases() -> None:
    assert len(CASES) == 32


CALLS = ("pull", "push", "grab", "complete", "fail", "cancel", "step")
TOKEN = (IN_READY, PULLING, PUSHING, OUT_READY)


def after(calls: Sequence[str]) -> OneConnection:
    """A connection after some calls, of which those that are refused change nothing."""
    connection = OneConnection()
    for call in calls:
        with suppress(LocalProtocolError):
            connection.perform(call)
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
            connection.perform(call)
            accepted += call == "push" and is_wanted
            is_cancelled = is_cancelled or call == "cancel"
    connection.island.run(10)
    heard = connection.heard
    assert heard.count("element") == accepted or (is_cancelled and heard.count("element") == accepted - 1)
    ends = [word for word in heard if word in ("end", "error", "cancelled")]
    assert len(ends) <= 1
    assert heard[len(heard) - len(ends) :] == ends


def test_a_call_that_breaks_a_rule_says_which_rule() -> None:
    port = OneConnection().port
    with pytest.raises(LocalProtocolError, match="was not asked for an element; look at is_asked first"):
        port.push(ELEMENT)
    port.pull()
    with pytest.raises(LocalProtocolError, match="has already asked"):
        port.pull()
    assert "Pulling" in repr(port)
