"""``Connection`` and the ``Island`` that runs its events refine ``PortMachine``.

A state is taken apart into its words, so the flags of the code are plain numbers.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from permitflow.errors import LocalProtocolError
from permitflow.stages.core import ports as core
from permitflow_model.port_machine import SYSTEM, Inlet, Outlet, State, Token
from permitflow_proofs.code.refinement import attempt, put
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import all_of, assume, equal
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.port_machine import SUBJECT

_TOKENS = {"InReady": core.IN_READY, "Pulling": core.PULLING, "Pushing": core.PUSHING, "OutReady": core.OUT_READY}
_ERROR = RuntimeError("the outlet has failed")


class _Hearing(core.Stage[Any, Any]):
    """A stage at one end: it notes what it hears, and does nothing, or raises an error."""

    def __init__(self, heard: list[str], *, raises: bool = False) -> None:
        super().__init__()
        self.heard = heard
        self._raises = raises

    def on_push(self, inlet: core.Connection[Any]) -> None:
        self._hear("element")

    def on_pull(self, outlet: core.Connection[Any]) -> None:
        self._hear("asked")

    def on_upstream_finish(self, inlet: core.Connection[Any]) -> None:
        self._hear("end")

    def on_upstream_failure(self, inlet: core.Connection[Any], error: BaseException) -> None:
        self._hear("failure" if error is _ERROR else "another failure")

    def on_downstream_finish(self, outlet: core.Connection[Any]) -> None:
        self._hear("cancelled")

    def _hear(self, word: str) -> None:
        self.heard.append(word)
        if self._raises:
            raise _ERROR


def _word(value: object, words: Any) -> str:
    """Which one it is; forks."""
    return next(str(word) for word in get_args(words) if value == word)


def _flags(state: State) -> int:
    inlet, outlet = _word(state.inlet, Inlet), _word(state.outlet, Outlet)
    closed = (inlet != "open") * core.IN_CLOSED | (outlet != "open") * core.OUT_CLOSED
    return _TOKENS[_word(state.token, Token)] | closed | (outlet == "failed") * core.IN_FAILED


class _Connected:
    """A connection that stands for a state, and the island that it belongs to."""

    def __init__(self, state: State, *, raises: bool = False) -> None:
        self.heard: list[str] = []
        self.island = core.Island()
        queue: deque[Any] = dict(vars(self.island))["_queue"]
        self.queue = queue
        producer, consumer = (_Hearing(self.heard, raises=raises) for _ in range(2))
        self.connection: Any = self.island.connect(producer, consumer)
        flags = _flags(state)
        failure = _ERROR if flags & core.IN_FAILED else None
        element = "here" if state.element >= 1 else core.EMPTY
        put(self.connection, {"state": flags, "element": element, "failure": failure})
        if state.events >= 1:
            queue.append(self.connection)

    def stands_for(self, state: State, wrong: int) -> bool:
        """Does it?"""
        flags, connection = _flags(state), self.connection
        return (
            connection.state == flags
            and (connection.failure is _ERROR) == bool(flags & core.IN_FAILED)
            and all_of(
                [
                    equal(int(connection.element is not core.EMPTY), state.element),
                    equal(len(self.queue) + wrong, state.events),
                ]
            )
        )


def _is_refined(action: str, call: Callable[[Any], Any], wrong: int) -> bool:
    """The call does what the action does, and is refused where it is not possible; nobody hears of it yet."""
    state, made = SUBJECT.any_case()
    if action == "Fail":
        assume(made.failures)
    connected = _Connected(state)
    outcome = attempt(connected.connection, call)
    if outcome.refusal is not None:
        is_right = isinstance(outcome.refusal, LocalProtocolError) and not SYSTEM.is_enabled(action, state, made)
        return is_right and connected.stands_for(state, wrong)
    if not SYSTEM.is_enabled(action, state, made):
        return False
    is_grabbed = action != "Grab" or outcome.result == "here"
    return not connected.heard and is_grabbed and connected.stands_for(SYSTEM.perform(action, state, made), wrong)


def _runs(wrong: int) -> bool:
    """The island runs one event: the right end hears the right thing."""
    state, made = SUBJECT.any_case()
    connected = _Connected(state)
    if not SYSTEM.is_enabled("ProcessEvent", state, made):
        is_idle = connected.island.run(1) is False and not connected.island.has_events
        return is_idle and not connected.heard and connected.stands_for(state, wrong)
    after = SYSTEM.perform("ProcessEvent", state, made)
    is_left = connected.island.run(1)
    heard = connected.heard or ["nothing"]
    is_right = len(heard) == 1 and bool(after.heard == heard[0])
    return is_right and is_left == bool(after.events >= 1) and connected.stands_for(after, wrong)


_FAILS = {**dict.fromkeys(("asked", "cancelled"), "Fail"), **dict.fromkeys(("element", "end", "failure"), "Cancel")}
"""What an end does that raises when it hears this."""


def _fails_its_stage(wrong: int) -> bool:
    """A handler raises: the outlets of its stage fail, and its inlets are cancelled."""
    state, made = SUBJECT.any_case()
    assume(made.failures)
    connected = _Connected(state, raises=True)
    connected.island.run(1)
    if SYSTEM.is_enabled("ProcessEvent", state, made):
        state = SYSTEM.perform("ProcessEvent", state, made)
    for action in map(_FAILS.get, connected.heard):
        if action is not None and SYSTEM.is_enabled(action, state, made):
            state = SYSTEM.perform(action, state, made)
    return connected.stands_for(state, wrong)


def _tells(wrong: int) -> bool:
    """What each end may ask of its port is what the model allows it."""
    state, made = SUBJECT.any_case()
    connection = _Connected(state).connection
    if wrong:
        state = SYSTEM.initial(made)
    return bool(
        connection.is_available == SYSTEM.is_enabled("Grab", state, made)
        and connection.is_asked == SYSTEM.is_enabled("Push", state, made)
        and connection.is_in_closed == bool(state.inlet != "open")
        and connection.is_out_closed == bool(state.outlet != "open")
        and connection.has_been_pulled == (bool(state.inlet == "open") and bool(state.token != "InReady"))
    )


def _begins(wrong: int) -> bool:
    """Init."""
    made = SUBJECT.any_parameters()
    island = core.Island()
    heard: list[str] = []
    connection = island.connect(_Hearing(heard), _Hearing(heard))
    is_right: bool = connection.element is core.EMPTY and connection.failure is None and not island.has_events
    return is_right and connection.state == _flags(SYSTEM.initial(made)) + wrong


def _pushed(connection: Any) -> None:
    connection.push("here")


_CALLS: dict[str, Callable[[Any], Any]] = {
    "Pull": lambda connection: connection.pull(),
    "Grab": lambda connection: connection.grab(),
    "Cancel": lambda connection: connection.cancel(),
    "Push": _pushed,
    "Complete": lambda connection: connection.complete(),
    "Fail": lambda connection: connection.fail(_ERROR),
}

OBLIGATIONS: tuple[SymbolicObligation, ...] = (
    claim("a connection begins", _begins, "with another flag"),
    *(claim(name, partial(_is_refined, name, call), "an event more") for name, call in _CALLS.items()),
    claim("the island runs an event", _runs, "an event more"),
    claim("a handler that raises fails its stage", _fails_its_stage, "an event more"),
    claim("what a port says of itself", _tells, "as at the beginning"),
)


def theorems() -> tuple[Theorem, ...]:
    """The claims about one connection."""
    return (
        Theorem(
            id="code-port-machine",
            statement=(
                "The running Connection does what its model does, and refuses what the model cannot do; the island "
                "tells the right end of each event, one at a time, and a handler that raises fails its stage."
            ),
            module="PortMachine",
            operator="Next",
            obligations=OBLIGATIONS,
        ),
    )
