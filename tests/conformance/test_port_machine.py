"""The model leads a connection of the stages through all its states, and says the same of Pekko's cases."""

import pytest

from permitflow.errors import LocalProtocolError
from permitflow.stages import Connection, Stage
from permitflow.stages.core import ports
from permitflow.stages.core.ports import Island
from permitflow_model.port_machine import SYSTEM, Event, Inlet, Outlet, Parameters, State, Token
from permitflow_testing import ActionRefused, Divergence
from permitflow_testing.moves import walk
from tests.impl.stages.test_ports import CASES

PARAMETERS = Parameters()
ERROR = OSError("of the outlet")


class Listener(Stage[str, str]):
    """Notes what it hears last, and does nothing."""

    def __init__(self, heard: list[Event]) -> None:
        super().__init__()
        self.heard = heard

    def on_push(self, inlet: Connection[str]) -> None:
        self.heard.append("element")

    def on_pull(self, outlet: Connection[str]) -> None:
        self.heard.append("asked")

    def on_upstream_finish(self, inlet: Connection[str]) -> None:
        self.heard.append("end")

    def on_upstream_failure(self, inlet: Connection[str], error: BaseException) -> None:
        self.heard.append("failure")

    def on_downstream_finish(self, outlet: Connection[str]) -> None:
        self.heard.append("cancelled")


class OneConnection:
    """A connection between two listeners; a copy is made by the same calls."""

    def __init__(self) -> None:
        self.open_anew()

    def open_anew(self) -> None:
        self._calls: list[str] = []
        self._heard: list[Event] = []
        self._all_heard: list[Event] = []
        self._island = Island()
        self._port: Connection[str] = self._island.connect(Listener(self._heard), Listener(self._heard))
        self._demand = 0
        self._has_cancelled = False

    def __getstate__(self) -> list[str]:
        return self._calls or ["nothing"]

    def __setstate__(self, calls: list[str]) -> None:
        self.open_anew()
        for call in calls:
            if call != "nothing":
                getattr(self, call)()

    def _call(self, name: str, *arguments: object) -> None:
        try:
            getattr(self._port, name)(*arguments)
        except LocalProtocolError as error:
            raise ActionRefused(str(error)) from error
        self._calls.append(name)
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
        self._call("push", "element")
        self._demand -= 1

    def complete(self) -> None:
        self._call("complete")

    def fail(self) -> None:
        self._call("fail", ERROR)

    def process_event(self) -> None:
        if not self._events:
            raise ActionRefused("nothing is due")
        self._calls.append("process_event")
        self._heard.clear()
        self._island.run(1)
        self._all_heard += self._heard

    def open_connection(self) -> None:
        if not (self._port.is_in_closed and self._port.is_out_closed) or self._events or self._elements:
            raise ActionRefused("the connection is in use")
        self.open_anew()

    @property
    def _events(self) -> int:
        return len(self._island._queue)

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
            heard=self._heard[-1] if self._heard else "nothing",
        )


def test_a_connection_takes_every_edge_and_refuses_everything_else() -> None:
    done = walk(SYSTEM, OneConnection(), PARAMETERS)
    assert min(done.states, done.edges, done.refusals) > 40


class LosesTheLast(OneConnection):
    """The end overtakes an element."""

    def complete(self) -> None:
        super().complete()
        self._port.element = ports.EMPTY


def test_a_connection_that_loses_an_element_is_found_out() -> None:
    with pytest.raises(Divergence, match="element"):
        walk(SYSTEM, LosesTheLast(), PARAMETERS)


# The cases of Pekko's GraphInterpreterPortsSpec.


def flags(state: State) -> str:
    """As the cases write them."""
    held = {
        "a": state.token == "OutReady" and state.outlet == "open",
        "c": state.outlet != "open",
        "A": state.token == "InReady" and state.element > 0,
        "P": state.token != "InReady" and state.inlet == "open",
        "C": state.inlet != "open",
    }
    return "".join(letter for letter, holds in held.items() if holds)


def taken(state: State, word: str, heard: list[str]) -> State:
    """The model's state after a word of a case, or a failed assertion."""
    if word.startswith("["):
        assert flags(state) == word[1:-1]
    elif word.startswith("!"):
        assert not SYSTEM.is_enabled(word[1:].capitalize(), state, PARAMETERS)
    elif word.startswith("->"):
        assert (",".join(heard) or "nothing") == word[2:].replace("error", "failure")
        heard.clear()
    elif word == "run":
        while SYSTEM.is_enabled("ProcessEvent", state, PARAMETERS):
            state = taken(state, "step", heard)
    else:
        action = "ProcessEvent" if word == "step" else word.capitalize()
        state = SYSTEM.perform(action, state, PARAMETERS)
        if state.heard != "nothing":
            heard.append(state.heard)
    assert not SYSTEM.broken_invariants(state, PARAMETERS)
    return state


@pytest.mark.parametrize("case", CASES)
def test_the_model_says_the_same_of_pekkos_cases(case: str) -> None:
    state, heard = SYSTEM.initial(PARAMETERS), list[str]()
    for word in CASES[case].split():
        state = taken(state, word, heard)
