"""A protocol as a program: states, actions, invariants.

A model is the text of its TLA+ module in Python.  Guards and updates use only ``+ - * // % < <= == min max if``
on values that may be ints or symbolic integers, and the methods of queues and families, so the same functions are
explored, replayed, made to lead tests and proved.  Nothing repeats a guard: ask ``is_enabled``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from permitflow_model.kernel.family import Family

__all__ = ["Action", "Disabled", "LeadsTo", "ModelError", "Step", "System", "require"]

S = TypeVar("S")
P = TypeVar("P")


class Disabled(Exception):
    """The action's guard is false in this state."""

    action = ""
    """Its name; empty if ``require`` was not called by an action."""


class ModelError(ValueError):
    """The text of a model cannot be right; names the action or the condition, and the state."""


def require(guard: object) -> None:
    """Let an action go on only where its guard holds.

    Raises:
        Disabled: the guard is false.
        ModelError: it is no condition, such as a function, or a condition with a text: a pair always holds.
    """
    if guard is True:
        return
    if not isinstance(guard, int) and not has_truth(guard):
        is_uncalled = callable(guard) or isawaitable(guard)
        advice = "call it, and let it be a plain function" if is_uncalled else "give it a condition: True or False"
        raise ModelError(f"`require` was given {shown(guard)}; {advice}")
    if not guard:
        raise Disabled


def has_truth(value: object) -> bool:
    """Is it a truth value, perhaps a symbol's?  Other values are true for reasons that a model does not mean."""
    return isinstance(value, bool) or (type(value).__module__ != "builtins" and hasattr(value, "__bool__"))


@dataclass(frozen=True)
class Action(Generic[S, P]):
    """One action of the specification, under the same name."""

    name: str
    perform: Callable[..., S]
    """``perform(state, parameters, *arguments)`` is the next state, or raises ``Disabled``."""

    arguments: Callable[[P], Iterable[tuple[int, ...]]] = lambda _parameters: ((),)
    """The arguments of the action, for bounded exploration."""

    is_environment: bool = False
    """Is it the application's move rather than the protocol's?"""

    is_arrival: bool = False
    """Does it wait for a message of another process?"""

    is_fair: bool = False
    """Does it happen, sooner or later, if it stays possible?  (Weak fairness; of a family, of each member.)"""

    end: str = ""
    """The end at which it happens, such as "sender" or "receiver"; empty if no end of a channel records it."""

    members: Callable[[S], Family[Any]] | None = None
    """The family of which one member performs it; that member's name is the first argument."""

    def __post_init__(self) -> None:
        """Check the parts.

        Raises:
            ModelError: the name is no text; a function is missing, or is asynchronous.
        """
        if not isinstance(self.name, str) or not self.name:
            raise ModelError(f"the name of an action must be a text, as in Action('send', send), not {self.name!r}")
        for what, part in (("what it performs", self.perform), ("its arguments", self.arguments)):
            _require_function(
                f"action {self.name!r}: {what}",
                part,
                ", as in Action('send', send, arguments=lambda parameters: [(1,), (2,)])",
            )

    def require_state(self, after: S, state: S, arguments: tuple[int, ...]) -> S:
        """What the action returned in this state, which must be a state, too.

        Raises:
            ModelError: the action returned no state, but None or something else.
        """
        if type(after) is not type(state) and not is_state(after, like=state):
            self.fail(no_state(after), state, arguments)
        return after

    def fail(
        self, told: str, state: object, arguments: tuple[int, ...], cause: BaseException | None = None
    ) -> NoReturn:
        """Say what is wrong with the action in this state."""
        raise ModelError(f"action {call(self.name, arguments)!r} in state {shown(state)}: {told}") from cause

    def is_possible(self, state: S, parameters: P, *arguments: int) -> bool:
        """Can it happen in this state?"""
        try:
            self.require_state(self.perform(state, parameters, *arguments), state, arguments)
        except Disabled:
            return False
        return True

    def by_some(self, state: S, performs: Callable[..., bool]) -> bool:
        """Is it so for the name of some member, as the first argument; or, where there are no members, without one?"""
        return performs() if self.members is None else self.members(state).some_name(performs)


def _require_function(what: str, part: object, example: str = "") -> None:
    if not callable(part):
        raise ModelError(f"{what} must be a function{example}, not {part!r}")
    if iscoroutinefunction(part):
        raise ModelError(f"{what} must be a plain function, not an async one")


_MOST_CHARACTERS = 500


def shown(value: object, form: Callable[[Any], str] = repr, *, most: int = _MOST_CHARACTERS) -> str:
    """A value as text of this form, cut where it is long; a class of the user's own may fail at it."""
    try:
        text = form(value)
    except Exception as error:
        return f"<a {type(value).__name__} that cannot be shown: {error}>"
    text = text if len(text) <= most else f"{text[:most]}…"
    return text.encode(errors="backslashreplace").decode()  # half a character is none that can be written


def is_state(value: object, *, like: object) -> bool:
    """Has it the form of this state?  The values may be symbolic."""
    if type(value) is type(like):
        return True
    fields: object = getattr(like, "_fields", None)
    if fields is not None:
        return not isinstance(value, type) and bool(getattr(value, "_fields", None) == fields)
    return value is not None and isinstance(value, tuple | bool) == isinstance(like, tuple | bool)


def no_state(value: object) -> str:
    """What to say of an action that returned this."""
    guard = "" if value is None else "; a guard is written as require(...)"
    return f"it returned {shown(value)}; return the next state, or let `require` refuse{guard}"


@dataclass(frozen=True)
class Step(Generic[S]):
    """An action as it was performed, and the state it led to."""

    action: str
    arguments: tuple[int, ...]
    state: S

    @property
    def call(self) -> str:
        """The action with its arguments, as in ``OfferChunk(4)``."""
        return call(self.action, self.arguments)


def call(action: str, arguments: Iterable[object]) -> str:
    """An action with its arguments, if it has any."""
    told = ", ".join(shown(each, str) for each in arguments)
    return f"{action}({told})" if told else action


class LeadsTo(NamedTuple, Generic[S, P]):
    """What begins with the premise comes to the conclusion, in every run that is fair: ``premise ~> conclusion``."""

    premise: Callable[[S, P], bool]
    conclusion: Callable[[S, P], bool]


@dataclass(frozen=True)
class System(Generic[S, P]):
    """A model: its initial state, its actions, its invariants."""

    module: str
    """The TLA+ module that says the same."""

    initial: Callable[[P], S]
    actions: tuple[Action[S, P], ...]
    invariants: Mapping[str, Callable[[S, P], bool]]
    """By the name that the TLA+ module gives them."""

    probes: Mapping[str, Callable[[S, P], bool]] = field(default_factory=dict)
    """Statements that are false, each for a reason worth knowing; in the same module, or the one with the probes."""

    counters: Mapping[str, Callable[[S], tuple[int, ...]]] = field(default_factory=dict)
    """The counters of each end; recorded runs have them after each action."""

    leads_to: Mapping[str, LeadsTo[S, P]] = field(default_factory=dict)
    """What it promises to come to; see ``kernel.liveness``."""

    at_rest: Callable[[S, P], bool] | None = None
    """May all wait for the application in this state?  See ``explore``."""

    must_move: Callable[[S, P], bool] | None = None
    """Where this holds, the protocol can go on by itself: the invariant ``NeverStuck``, of these very actions."""

    def __post_init__(self) -> None:
        """Check the parts.

        Raises:
            ModelError: two actions have one name; a condition or counter is no function, or is asynchronous.
        """
        by_name = {"invariants": self.invariants, "probes": self.probes, "counters": self.counters}
        for what, named in by_name.items():
            if not isinstance(named, Mapping) or not all(isinstance(name, str) for name in named):
                raise ModelError(f"{what} must be functions by name, as in {{'Bounded': bounded}}, not {named!r}")
        is_many = isinstance(self.actions, Iterable)
        strange = [one for one in self.actions if not isinstance(one, Action)] if is_many else [self.actions]
        if strange:
            raise ModelError(f"actions must be Actions, as in (Action('send', send),), not {strange[0]!r}")
        promises = self.leads_to.values() if isinstance(self.leads_to, Mapping) else [self.leads_to]
        if not all(isinstance(one, LeadsTo) for one in promises):
            example = "{'Served': LeadsTo(premise, conclusion)}"
            raise ModelError(f"leads_to must have promises by name, as in {example}, not {self.leads_to!r}")
        conditions = (
            ("initial", self.initial),
            *((f"invariant {name!r}", condition) for name, condition in self.invariants.items()),
            *((f"probe {name!r}", condition) for name, condition in self.probes.items()),
            *([] if self.at_rest is None else [("at_rest", self.at_rest)]),
            *([] if self.must_move is None else [("must_move", self.must_move)]),
            *((f"the counters of {end!r}", count) for end, count in self.counters.items()),
            *(
                (f"the {part} of {name!r}", condition)
                for name, promise in self.leads_to.items()
                for part, condition in promise._asdict().items()
            ),
        )
        for what, condition in conditions:
            _require_function(what, condition)
        names = Counter(action.name for action in self.actions)
        if not names:
            raise ModelError("a model must have actions, as in (Action('send', send),); this one can do nothing")
        if twice := [name for name, count in names.items() if count > 1]:
            raise ModelError(
                f"two actions are named {twice[0]!r}: give each its own name; one action with several "
                "arguments names them by `arguments`"
            )
        if self.must_move is not None:
            object.__setattr__(self, "invariants", {**self.invariants, "NeverStuck": self._never_stuck})

    def _never_stuck(self, state: S, parameters: P) -> bool:
        if self.must_move is None:
            return True
        must = self.must_move(state, parameters)
        if not has_truth(must):
            raise ModelError(f"must_move returned {shown(must)}; return whether it holds, as True or False")
        return not must or self.can_move(state, parameters)

    @property
    def statements(self) -> Mapping[str, Callable[[S, P], bool]]:
        """Invariants and probes."""
        return {**self.invariants, **self.probes}

    def action(self, name: str) -> Action[S, P]:
        """Look an action up by its name in the specification.

        Raises:
            KeyError: the model has no such action.
        """
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Action[S, P]]:
        return {action.name: action for action in self.actions}

    def is_enabled(self, name: str, state: S, parameters: P, *arguments: int) -> bool:
        """Can this action happen in this state?"""
        return self._by_name[name].is_possible(state, parameters, *arguments)

    def perform(self, name: str, state: S, parameters: P, *arguments: int) -> S:
        """Take one step.

        Raises:
            Disabled: the action's guard is false in this state.
            KeyError: the model has no such action.
            ModelError: the action returns no state.
        """
        action = self._by_name[name]
        try:
            after = action.perform(state, parameters, *arguments)
        except Disabled as refused:
            refused.action = name
            raise
        return action.require_state(after, state, arguments)

    def successors(self, state: S, parameters: P) -> Iterator[Step[S]]:
        """All steps out of a state, in the order of the actions."""
        for action in self.actions:
            for arguments in action.arguments(parameters):
                try:
                    after = action.require_state(action.perform(state, parameters, *arguments), state, arguments)
                except Disabled:
                    continue
                yield Step(action.name, arguments, after)

    def can_move(self, state: S, parameters: P) -> bool:
        """Can the protocol go on without the application?

        Its own actions take no arguments but a member's name, and numbers with a default: the one that is possible if
        any is.
        """
        for action in self._own_actions:
            if action.by_some(state, partial(action.is_possible, state, parameters)):
                return True
        return False

    def can_step(self, state: S, parameters: P) -> bool:
        """The same where its own actions take other arguments: those of an exploration."""
        return any(
            self.is_enabled(action.name, state, parameters, *arguments)
            for action in self._own_actions
            for arguments in action.arguments(parameters)
        )

    @cached_property
    def _own_actions(self) -> list[Action[S, P]]:
        return [action for action in self.actions if not action.is_environment]

    def broken_invariants(self, state: S, parameters: P) -> list[str]:
        """The names of the invariants that this state violates."""
        return [name for name, holds in self.invariants.items() if not holds(state, parameters)]
