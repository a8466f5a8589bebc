"""Frames: when an action is possible, and which parts of a state it changes, and how; all others stay as they are.

An invariant says what is never wrong.  A frame says that an action does its job, and nothing else: a message that is
lost, or doubled, or a wait that is forgotten, breaks no count that forgets it, too.

A part is a path into the state: ``"credit"``, ``"held.number"``, or ``"actors.0.mailbox"`` of a member.  A queue
changes by its size; which message moves is the matter of clauses about order.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations
from typing import Any, Generic, TypeVar, cast

from permitflow_model.kernel.queue import Fifo
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.indexed import Indexed
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.symbols import (
    Choice,
    Opaque,
    Shape,
    Truth,
    all_of,
    any_of,
    assume,
    equal,
    integer,
    merged,
    negated,
)

S = TypeVar("S")
P = TypeVar("P")

Change = int | bool | str | None
"""By how much a number or the size of a queue grows; the word or the truth value it becomes; None: anything."""


@dataclass(frozen=True)
class Frame(Generic[S, P]):
    """One action, performed in one way."""

    action: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    """By their paths; what is not named stays as it is."""

    so: Callable[[S, S, P], bool] | None = None
    """More about the states before and after it."""

    words: str = ""
    """The same for readers."""

    arguments: tuple[int, ...] | None = None
    """The arguments of the action; None: any."""

    when: Callable[..., bool] | None = None
    """``when(before, parameters, *arguments)``: it is possible exactly there; None: nothing is said of it."""

    possible: str = ""
    """The same for readers: where."""

    acts: Callable[[P], bool] | None = None
    """Of which calls it tells, by who acts; other frames tell of the others.  None: of all."""

    any_state: Callable[[P], S] | None = None
    """Any state in which the member in focus is the one that acts, where nobody chooses it; None: as for all frames."""

    @property
    def call(self) -> str:
        """The action, with its arguments if they are given."""
        return self.action if self.arguments is None else f"{self.action}{self.arguments}".replace(",)", ")")

    @property
    def row(self) -> tuple[str, str, str, str]:
        """For readers: the action, where it is possible, what it changes, and how."""
        changes = ", ".join(_told(path, change) for path, change in self.changes.items())
        return self.call, self.possible, changes or "nothing", self.words


def _told(path: str, change: Change) -> str:
    if change is None:
        return path
    if isinstance(change, bool):
        return f"{path} = {'true' if change else 'false'}"
    return f"{path} = {change}" if isinstance(change, str) else f"{path} {change:+}"


def frame_obligations(subject: Subject[S, P], frames: Sequence[Frame[S, P]]) -> tuple[SymbolicObligation, ...]:
    """One for each frame, one for each guard that it states, and one for each action with frames of some calls each.

    The last kind says that each call is one of those that these frames are about.

    The twin leaves out the first part that changes, or has a part change where none does; that of a guard has none; and
    that of several frames leaves out the last one.

    Raises:
        ValueError: an action of the system has no frame; a frame gives numbers that stand for themselves alone; or it
            tells of some of the members that act, where nobody chooses one.
    """
    if missing := {action.name for action in subject.system.actions} - {frame.action for frame in frames}:
        raise ValueError(f"give a frame to {min(missing)}: the parts of the state that it changes")
    if numbered := [frame.call for frame in frames if frame.arguments and not subject.names]:
        raise ValueError(f"{numbered[0]}: give the subject the names of any members, for which these numbers stand")
    if chosen := [one.call for one in frames if one.acts is not None and not _has_a_choice(subject, one.action)]:
        raise ValueError(
            f"{chosen[0]}: nobody chooses who acts, so that acts would leave out parameters, untold; give the frame "
            "any_state, with the member that acts in focus"
        )
    guards = (guard_obligation(subject, frame) for frame in frames if frame.when is not None)
    of_action = {frame.action: [one for one in frames if one.action == frame.action] for frame in frames}
    covers = (_cover(subject, action, its) for action, its in of_action.items() if _are_of_some_calls(its))
    return (*(_obligation(subject, frame) for frame in frames), *guards, *covers)


def _has_a_choice(subject: Subject[S, P], action: str) -> bool:
    """Is it performed with arguments?"""
    return subject.system.action(action).members is not None or action in subject.any_arguments


def _are_of_some_calls(frames: Sequence[Frame[S, P]]) -> bool:
    """Are there several, or one that says which of the members that may act does, or which arguments are the same?"""
    (one, *others) = frames
    return bool(others) or one.acts is not None or len(one.arguments or ()) > 1


@cache
def _in_any_state(subject: Subject[S, P], any_state: Callable[[P], S]) -> Subject[S, P]:
    """One subject for each, so that its beginning is made once."""
    return replace(subject, any_state=any_state)


def _subject_of(frame: Frame[S, P], subject: Subject[S, P]) -> Subject[S, P]:
    return subject if frame.any_state is None else _in_any_state(subject, frame.any_state)


def _cover(subject: Subject[S, P], action: str, frames: Sequence[Frame[S, P]]) -> SymbolicObligation:
    def is_of_one(frames: Sequence[Frame[S, P]]) -> bool:
        _, parameters = subject.any_case()
        arguments = [integer("argument") for _ in frames[0].arguments or ()]
        return any_of([_is_of(frame, parameters, arguments) for frame in frames])

    return SymbolicObligation(
        f"each call of {action} has a frame",
        lambda: is_of_one(frames),
        lambda: is_of_one(frames[:-1]),
        "the last frame is left out",
    )


def _is_of(frame: Frame[S, P], parameters: P, arguments: Sequence[int]) -> bool:
    """Does the member act of which the frame tells, and are the arguments the same or different ones, as in it?"""
    pairs = combinations(zip(arguments, frame.arguments or (), strict=True), 2)
    are_same = (equal(one, other) == (number == other_number) for (one, number), (other, other_number) in pairs)
    return all_of([*are_same, frame.acts is None or merged(partial(frame.acts, parameters))])


def guard_obligation(subject: Subject[S, P], frame: Frame[S, P]) -> SymbolicObligation:
    """The guard that a frame states; its twin has none."""
    return SymbolicObligation(
        f"guard of {frame.call}",
        lambda: has_guard(subject, frame),
        lambda: has_guard(subject, replace(frame, when=lambda *_: True)),
        "it is always possible",
    )


def has_guard(subject: Subject[S, P], frame: Frame[S, P]) -> bool:
    """Is the action possible exactly where the frame says so?  (To be called in a claim.)"""
    before, arguments, parameters = _subject_of(frame, subject).any_call(frame.action, frame.arguments)
    if frame.acts is not None:
        assume(frame.acts(parameters))
    is_possible = subject.is_enabled(frame.action, before, parameters, *arguments)
    return frame.when is None or bool(frame.when(before, parameters, *arguments)) == is_possible


def _obligation(subject: Subject[S, P], frame: Frame[S, P]) -> SymbolicObligation:
    if not frame.changes:
        change, twin = "it changes something", lambda: negated(keeps_frame(subject, frame))
    else:
        first, *others = frame.changes
        fewer: Frame[S, P] = replace(frame, changes={path: frame.changes[path] for path in others}, so=None, when=None)
        change, twin = f"it leaves {first} as it is", lambda: keeps_frame(subject, fewer)
    return SymbolicObligation(frame.call, lambda: keeps_frame(subject, frame), twin, change)


def keeps_frame(subject: Subject[S, P], frame: Frame[S, P]) -> bool:
    """Does any step of the action change only what the frame names, and so?  (To be called in a claim.)

    Raises:
        ValueError: the frame names a part that the state does not have.
    """
    subject = _subject_of(frame, subject)
    if frame.arguments is None:
        before, after, parameters = subject.any_step(frame.action)
    else:
        before, parameters = subject.any_case()
        after = subject.system.perform(frame.action, before, parameters, *subject.named(frame.arguments))
    if frame.acts is not None:
        assume(frame.acts(parameters))
    met: set[str] = set()
    conditions = list(_compared("", before, after, frame.changes, met))
    if unknown := {path for path in frame.changes.keys() - met if not _is_of_absent_member(before, path)}:
        raise ValueError(f"{frame.call}: the state has no part {min(unknown)!r}")
    # What the action has decided is known on this path, so that the same questions do not fork again.
    return all_of(conditions) and (frame.so is None or frame.so(before, after, parameters))


def _is_of_absent_member(state: Any, path: str) -> bool:
    """Is the part one of a second member, where there is only one?"""
    name, *rest = path.split(".")
    family = getattr(state, name, None)
    return isinstance(family, SymbolicFamily) and rest[0] == "1" and rest[0] not in dict(family.parts())


def is_same_state(one: Any, other: Any) -> bool:
    """Are two states equal in all parts?"""
    return all_of(_compared("", one, other, {}, set()))


def _compared(path: str, before: Any, after: Any, changes: Mapping[str, Change], met: set[str]) -> Iterator[bool]:
    if path in changes:
        met.add(path)
        yield _is_changed(before, after, changes[path])
        return
    parts = _parts(before)
    if parts is None:
        yield is_same_part(before, after)
        return
    # All parts are visited, also of values that are the same, to find out whether the frame names parts that are none.
    for (name, one), (_, other) in zip(parts, _parts(after) or (), strict=True):
        yield from _compared(f"{path}.{name}" if path else name, one, other, changes, met)


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of a named tuple, or the members of a family; None for a value by itself."""
    if isinstance(value, Indexed | SymbolicFamily):
        return value.parts()
    if not isinstance(value, tuple) or isinstance(value, Fifo):
        return None
    return list(zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True))


def is_same_part(before: Any, after: Any) -> bool:
    """Are two parts of states equal: numbers, words, truth values, queues?"""
    if before is after:
        return True
    if isinstance(after, Choice | Truth) and not isinstance(before, Choice | Truth):
        before, after = after, before
    if isinstance(before, Choice | Truth | str | bool):
        return cast(bool, before == after)
    if isinstance(before, Shape | int) or hasattr(before, "term"):
        return equal(before, after)
    if isinstance(before, Fifo | SymbolicQueue) and isinstance(after, Fifo | SymbolicQueue):
        return _is_same_queue(before, after)
    if isinstance(before, Opaque) or isinstance(after, Opaque):
        return False  # two kinds of queues: they may be equal, and nothing is known of that
    # Members of which nothing is known: the same if nothing was done to them.
    return bool(before == after)


def _is_same_queue(before: Fifo[Any] | SymbolicQueue[Any], after: Fifo[Any] | SymbolicQueue[Any]) -> bool:
    if isinstance(before, SymbolicQueue):
        return before.is_surely(after, is_same_state) or (before.is_empty() and after.is_empty())
    if isinstance(before, Fifo) and isinstance(after, Fifo):
        return before.size() == after.size() and all_of(map(is_same_state, before, after))
    return before.is_empty() and after.is_empty()


def _is_changed(before: Any, after: Any, change: Change) -> bool:
    if change is None:
        return True
    if isinstance(change, bool | str):
        return is_same_part(after, change)
    return equal(_amount(after), _amount(before) + change)


def _amount(value: Any) -> int:
    return cast(int, value.size() if hasattr(value, "size") else value)
