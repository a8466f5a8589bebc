"""The model leads a connection of the stages through all its states; both play Pekko's cases."""

from typing import cast

import pytest

from permitflow.errors import LocalProtocolError
from permitflow.stages.core import ports
from permitflow_model.port_machine import SYSTEM, Event, Inlet, Outlet, Parameters, State, Token
from permitflow_testing import ActionRefused, Divergence
from permitflow_testing.moves import walk
from tests.support.port_cases import CASES, OneConnection, Player
from tests.support.replayed import Replayed

PARAMETERS = Parameters()


class DrivenConnection:
    """The library's connection, moved by the model."""

    def begin(self) -> None:
        self._all_heard: list[str] = []
        self._connection = OneConnection()
        self._port, self._heard = self._connection.port, self._connection.heard
        self._demand = 0
        self._has_cancelled = False

    def end(self) -> None:
        pass

    def _call(self, name: str) -> None:
        try:
            self._connection.call(name)
        except LocalProtocolError as error:
            raise ActionRefused(str(error)) from error
        self._heard.clear()

    def pull(self) -> None:
        self._call("pull")
        self._demand += 1

    def grab(self) -> None:
        self._call("grab")

    def cancel(self) -> None:
        is_first = not self._port.is_in_closed
        self._call("cancel")
        self._has_cancelled |= is_first

    def push(self) -> None:
        self._call("push")
        self._demand -= 1

    def complete(self) -> None:
        self._call("complete")

    def fail(self) -> None:
        self._call("fail")

    def process_event(self) -> None:
        if not self._events:
            raise ActionRefused("nothing is due")
        self._heard.clear()
        self._connection.process(1)
        self._all_heard += self._heard

    def open_connection(self) -> None:
        if not (self._port.is_in_closed and self._port.is_out_closed) or self._events or self._elements:
            raise ActionRefused("the connection is in use")
        self.begin()

    @property
    def _events(self) -> int:
        return len(self._connection.island._queue)

    @property
    def _elements(self) -> int:
        return int(self._port.element is not ports.EMPTY)

    def _inlet(self) -> Inlet:
        if not self._port.is_in_closed:
            return "open"
        return "cancelled" if self._has_cancelled else "failed" if "failure" in self._all_heard else "completed"

    def _outlet(self) -> Outlet:
        if not self._port.is_out_closed:
            return "open"
        if "cancelled" in self._all_heard:
            return "cancelled"
        return "failed" if self._port.failure is not None else "completed"

    def observe(self) -> State:
        tokens: dict[int, Token] = {
            ports.IN_READY: "InReady",
            ports.PULLING: "Pulling",
            ports.PUSHING: "Pushing",
            ports.OUT_READY: "OutReady",
        }
        return State(
            token=tokens[self._port.state & 15],
            inlet=self._inlet(),
            outlet=self._outlet(),
            element=self._elements,
            events=self._events,
            demand=self._demand,
            heard=cast("Event", self._heard[-1]) if self._heard else "nothing",
        )


def test_a_connection_takes_every_edge_and_refuses_everything_else() -> None:
    done = walk(SYSTEM, Replayed(DrivenConnection), PARAMETERS)
    assert min(done.states, done.edges, done.refusals) > 40


class LosesTheLast(DrivenConnection):
    """The end overtakes an element."""

    def complete(self) -> None:
        super().complete()
        self._port.element = ports.EMPTY


def test_a_connection_that_loses_an_element_is_found_out() -> None:
    with pytest.raises(Divergence, match="element"):
        walk(SYSTEM, Replayed(LosesTheLast), PARAMETERS)


# The cases of Pekko's GraphInterpreterPortsSpec.


class ModelConnection(Player):
    """The model."""

    def __init__(self) -> None:
        self.heard = []
        self.state = SYSTEM.initial(PARAMETERS)

    def flags(self) -> str:
        state = self.state
        held = {
            "a": state.token == "OutReady" and state.outlet == "open",
            "c": state.outlet != "open",
            "A": state.token == "InReady" and state.element > 0,
            "P": state.token != "InReady" and state.inlet == "open",
            "C": state.inlet != "open",
        }
        return "".join(letter for letter, holds in held.items() if holds)

    def call(self, name: str) -> None:
        self._perform(name.capitalize())

    def refuse(self, name: str) -> None:
        assert not SYSTEM.is_enabled(name.capitalize(), self.state, PARAMETERS)

    def process(self, most: int) -> None:
        while most and SYSTEM.is_enabled("ProcessEvent", self.state, PARAMETERS):
            self._perform("ProcessEvent")
            most -= 1

    def _perform(self, action: str) -> None:
        self.state = SYSTEM.perform(action, self.state, PARAMETERS)
        if self.state.heard != "nothing":
            self.heard.append(self.state.heard)
        assert not SYSTEM.broken_invariants(self.state, PARAMETERS)


@pytest.mark.parametrize("player", [OneConnection, ModelConnection])
@pytest.mark.parametrize("case", CASES)
def test_connection_and_model_behave_as_in_pekkos_table(case: str, player: type[Player]) -> None:
    player().play(CASES[case])


def test_the_table_has_all_32_cases() -> None:
    assert len(CASES) == 32
