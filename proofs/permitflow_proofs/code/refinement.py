"""The running code against its model: a call is the model's steps, or it is refused and changes nothing.

A claim makes any state of the model that the inductive invariant allows, and the code's object that *stands for* it:
each of its fields is a number of that state, or any number at all where the state does not tell it.  Then it makes the
call, with any arguments, twice: with a recorder and without one.

- The recorded events are explained by steps of the model: by the same map that explains the events of real runs.
- Afterwards each field holds what it must in the state to which these steps lead, in both objects; what no step
  changes is as it was.
- It is refused, or does nothing, exactly where the model can do nothing; then nothing is recorded or changed.

So the code does what the model does, exactly where the model does it.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import partial
from operator import attrgetter
from types import FrameType, ModuleType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from permitflow.errors import PermitflowError
from permitflow.flows.messages import Message
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.replay import Refused, Starved, World
from permitflow_model.kernel.system import Disabled, System
from permitflow_proofs.code.stand_ins import Inbox, Line, standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.frame import is_same_part
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.symbols import all_of, any_of, equal

S = TypeVar("S")
P = TypeVar("P")


class Event(NamedTuple):
    """What the code records: an action, its arguments, and the end's counters after it."""

    action: str
    arguments: tuple[int, ...]
    counters: tuple[int, ...]
    channel: str = ""
    """Which of several objects did; empty: the only one."""
    end: str = ""
    """Which kind of end, where the explanation asks."""


class Explaining(Protocol[S, P]):
    """Explains events by steps of a system, as those of recorded runs."""

    system: System[S, P]

    def perform(self, world: World[S], event: Any) -> Sequence[World[S]]:
        """The worlds to which the event leads."""
        ...


class Outcome(NamedTuple):
    """What came of a call."""

    core: Any
    result: Any
    refusal: PermitflowError | None


class Case(ABC, Generic[S, P]):
    """An object of the code that stands for any state of its model, and the same object without a recorder."""

    modules: Sequence[ModuleType]
    """The modules whose names have stand-ins."""

    off_by_one: str
    """The field that twins expect to hold one more."""

    def __init__(self, state: S, parameters: P) -> None:
        """Make both objects."""
        self.state = state
        self.parameters = parameters
        self.events: list[Event] = []
        self.core = self.make(lambda *event: self.events.append(Event(*event)))
        self.silent = self.make(None)
        self.before = self.fields(self.core)
        parts = dict(_named_parts(state))
        of = {id(value): name for name, value in parts.items() if not isinstance(value, int | str | None)}
        current_explorer().told.update(
            parameters=dict(_named_parts(parameters)),
            state=parts,
            before=_shown(self.before),
            model_names={path: of[id(value)] for path, value in self.before.items() if id(value) in of},
        )

    @abstractmethod
    def stands_for(self, state: S) -> Mapping[str, Any]:
        """What the fields hold that tell something of a state: values, or conditions on values."""

    @abstractmethod
    def make(self, record: Callable[..., None] | None) -> Any:
        """The object, in the state of this case."""

    def fields(self, core: Any) -> Mapping[str, Any]:
        """The fields of an object, by their paths."""
        return dict(fields_of(core))

    @abstractmethod
    def replay(self) -> "Explaining[S, P]":
        """What explains its events."""

    def explained(self) -> S:
        """The state to which the steps lead that the events are.

        Raises:
            Refused: they are none.
            Starved: likewise.
            Disabled: likewise.
        """
        replay, world = self.replay(), World(self.state)
        for event in self.events:
            (world,) = replay.perform(world, event)
        return world.state

    def holds(self, core: Any, state: S, changes: Mapping[str, Any], wrong: int) -> bool:
        """Does each field hold what it must?"""
        expected = {**self.before, **self.stands_for(state), **changes}
        found = self.fields(core)
        if set(expected) != set(found):
            raise TypeError(f"nobody says what becomes of {set(expected) ^ set(found)}")
        expected[self.off_by_one] = expected[self.off_by_one] + wrong
        agree = {path: _agrees(found[path], value) for path, value in expected.items()}
        must = {path: value for path, value in expected.items() if not isinstance(value, Is)}
        current_explorer().told.update(found=_shown(found), must=_shown(must), agree=agree)
        return all_of(list(agree.values()))


# ``put``, ``field`` and ``fields_of`` are the seam between claims and the private state of the code: claims are about
# that state, and name its fields, as words, where they say what these stand for.


def put(core: Any, fields: Mapping[str, Any]) -> Any:
    """Let fields of an object, or of objects that it holds, have these values; returns it.

    A method may be given, too: what the object does instead.
    """
    for path, value in fields.items():
        *owners, name = path.split(".")
        owner = core
        for one in owners:
            owner = getattr(owner, one)
        setattr(owner, name, value)
    return core


def field(core: Any, path: str) -> Any:
    """What a field of an object, or of one that it holds, has; or one of its methods."""
    return attrgetter(path)(core)


class Is(NamedTuple):
    """A condition on a field, in place of its value."""

    condition: Callable[[Any], bool]


def is_larger(one: int, other: int) -> Is:
    """The larger of two, without a fork."""
    return Is(lambda found: all_of([found >= one, found >= other, any_of([equal(found, one), equal(found, other)])]))


def _agrees(found: Any, expected: Any) -> bool:
    return expected.condition(found) if isinstance(expected, Is) else is_same_part(found, expected)


def fields_of(core: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All fields of an object, and of the objects that only it holds, by their paths."""
    for kind in reversed(type(core).__mro__):
        for name in vars(kind).get("__slots__", ()):
            if name not in _GIVEN and hasattr(core, name):
                yield from _parts_of(f"{prefix}{name}", getattr(core, name))


_GIVEN = ("_record", "parameters", "__weakref__")
"""Set when the object is made, and never again."""


def _parts_of(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Line | Inbox):
        yield path, value.queue
    elif type(value).__module__.startswith("permitflow.") and not isinstance(value, tuple | str | Message):
        yield from fields_of(value, f"{path}.")
    else:
        yield path, value


def attempt(core: Any, call: Callable[[Any], Any]) -> Outcome:
    """Make the call; a deliberate error is a refusal."""
    try:
        return Outcome(core, call(core), None)
    except PermitflowError as refusal:
        return Outcome(core, None, refusal)


def _named_parts(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The parts of a state, or of parameters, by their paths."""
    if is_dataclass(value):
        yield from ((each.name, getattr(value, each.name)) for each in dataclass_fields(value))
    elif hasattr(value, "_asdict"):
        for name, part in value._asdict().items():
            yield from _named_parts(part, f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, Members):
        for name in value.names():
            yield from _named_parts(value.get(name), f"{prefix}.{name}")
    else:
        yield prefix, value


def _in_words(outcome: Outcome) -> Mapping[str, object]:
    if outcome.refusal is not None:
        return {"refusal": type(outcome.refusal).__name__}
    return _shown({"result": outcome.result})


class _ShownMessage(NamedTuple):
    kind: str
    rows: int


def _shown(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Messages by their kind and their rows."""
    return {
        name: _ShownMessage(value.kind.value, value.rows) if isinstance(value, Message) else value
        for name, value in values.items()
    }


@contextmanager
def _first_call_told(modules: Sequence[ModuleType], told: dict[str, object]) -> Iterator[None]:
    """Tell the first call of a function of these modules: its name and its arguments."""
    before, spaces = sys.getprofile(), [vars(module) for module in modules]

    def look(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and any(frame.f_globals is space for space in spaces):
            sys.setprofile(before)
            code, values = frame.f_code, frame.f_locals
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            owner = f"{type(values['self']).__name__}." if "self" in values else ""
            arguments = {name: values[name] for name in names if name != "self"}
            told.update(call=f"{owner}{code.co_name}", arguments=_shown(arguments))

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


C = TypeVar("C", bound=Case[Any, Any])


def _nothing(_case: Any, _after: Any, _outcome: Outcome) -> Mapping[str, Any]:
    return {}


def _any_result(_case: Any, _after: Any, _outcome: Outcome) -> bool:
    return True


@dataclass(frozen=True)
class Call(Generic[C]):
    """One way to call the code."""

    name: str
    make: Callable[[], C]
    call: Callable[[Any, C], Any]
    """Gets the object and its case."""

    may: Callable[[C], bool]
    """Does the model do something here?  Then so must the code, and only then."""

    changes: Callable[[C, Any, Outcome], Mapping[str, Any]] = _nothing
    """What becomes of fields that no state tells: ``changes(case, state after it, outcome)``."""

    returns: Callable[[C, Any, Outcome], bool] = _any_result
    """Is this the right result?  None for a refusal."""

    leads_to: Callable[[C], Any] | None = None
    """The state after it, where no replay tells it: events are explained by another one."""


def refines(call: Call[C], wrong: int) -> bool:
    """Is the call what the model does?  (To be called in a claim.)"""
    case = call.make()
    told = current_explorer().told
    with standing_in(case.modules), _first_call_told(case.modules, told):
        outcomes = [attempt(core, lambda core: call.call(core, case)) for core in (case.core, case.silent)]
    told.update(_in_words(outcomes[0]), found=_shown(case.fields(case.core)), events=case.events)
    if len({type(outcome.refusal) for outcome in outcomes}) > 1 or (outcomes[0].refusal is not None and case.events):
        told["model"] = "asks for a refusal that is the same with a recorder and without one, and records nothing"
        return False
    has_moved = bool(case.events)
    try:
        after = case.explained() if call.leads_to is None or not has_moved else call.leads_to(case)
    except (Refused, Starved, Disabled):
        _tell_of_model(call, case, told, "does something here, but not what is recorded")
        return False
    if bool(call.may(case)) != has_moved:
        _tell_of_model(call, case, told, "does something here")
        return False
    with standing_in(case.modules):
        for outcome in outcomes:
            changes = call.changes(case, after, outcome)
            if not case.holds(outcome.core, after, changes, wrong):
                told["model"] = "does the same, which leads to other values" if has_moved else "does nothing"
                return False
            if not call.returns(case, after, outcome):
                told["model"] = "has another result"
                return False
    return True


def _tell_of_model(call: Call[C], case: C, told: dict[str, object], otherwise: str) -> None:
    """Tell that the model can do nothing, so that all must be as it was; or what it does otherwise."""
    if call.may(case):
        told["model"] = otherwise
    else:
        told.update(model="can do nothing here", must=_shown(case.before))


def obligation(call: Call[Any]) -> SymbolicObligation:
    """The call refines the model; in the twin, one field holds one more than it must."""
    return claim(call.name, partial(refines, call), "afterwards one field holds one more")


EMPTY = Is(lambda found: not found)
"""A deque in which nothing is."""


def begins(
    make: Callable[[], C], fresh: Callable[[C], Any], initial: Callable[[Any], Any], started: Callable[[C], Any]
) -> SymbolicObligation:
    """A new object stands for the model's first state; ``started``: what becomes of fields that no state tells."""

    def is_as_the_model(wrong: int) -> bool:
        case = make()
        with standing_in(case.modules):
            end = fresh(case)
        return case.holds(end, initial(case.parameters), started(case), wrong)

    return claim("it begins", is_as_the_model, "one field holds one more")


def is_possible(case: Case[Any, Any], *moves: str | tuple[str, tuple[int, ...]]) -> bool:
    """Does the model allow one of these actions?"""
    named = [(move, ()) if isinstance(move, str) else move for move in moves]
    system = case.replay().system
    return any(system.is_enabled(name, case.state, case.parameters, *arguments) for name, arguments in named)
