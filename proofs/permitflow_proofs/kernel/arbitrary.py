"""Any parameters and any state of a protocol, made from their annotations."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from permitflow_model.kernel.family import Family
from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.system import System
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.symbols import choice, integer, suppose, truth

T = TypeVar("T")
S = TypeVar("S")
P = TypeVar("P")


def arbitrary(kind: Callable[..., T], prefix: str = "", special: Mapping[str, object] = MappingProxyType({})) -> T:
    """Any value of a named tuple or a dataclass; each field is a symbol of its name, behind the prefix.

    Args:
        kind: the type; its fields are integers, truth values, words (``Literal``), queues, families, or named tuples of
            these.
        prefix: of the symbols' names.
        special: the values of some fields, instead of symbols: fixed ones, and queues with known laws.

    Raises:
        TypeError: a field is of another type, or there is no field of that name.
    """
    return kind(**_values_of(kind, prefix, special))


def _values_of(kind: Callable[..., object], prefix: str, special: Mapping[str, object]) -> dict[str, object]:
    values = {name: make(f"{prefix}{name}") for name, make in _makers(kind) if name not in special}
    return {**values, **special}


def any_parameters_of(kind: type[T], **special: object) -> T:
    """Any parameters that the model accepts, some of them fixed; the premise is the model's own refusal of bad ones.

    Args:
        kind: a dataclass, which refuses them by a ``ValueError``.
        special: the values of some fields, instead of symbols.

    Raises:
        TypeError: it is something else, or has a field of which there are no symbols.
    """
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no dataclass: let one refuse, by ValueError, the parameters that are none")

    def make() -> T:
        values = _values_of(kind, "", special)
        suppose(partial(_is_accepted, kind, values))
        # Not looked at again: each question that the refusal asks would fork, and all that follows is walked once for
        # each answer.
        made: Any = object.__new__(kind)
        for name, value in values.items():  # which may be frozen, or have slots
            object.__setattr__(made, name, value)
        return cast(T, made)

    return current_explorer().about(make)


def _is_accepted(kind: type[T], values: Mapping[str, object]) -> bool:
    try:
        made = kind(**values)
    except ValueError:
        return False
    for name, value in values.items():
        if getattr(made, name) is not value:
            raise TypeError(f"{kind.__name__} takes {name} = {value} for another value; give it that one")
    return True


def any_value(kind: Any) -> Callable[[str], Any]:
    """A function that makes any value of a type, given a name for it.

    Raises:
        TypeError: it makes no values of this type.
    """
    if kind is None:
        raise TypeError("this field has no type, which would say what symbol it is; a typing.NamedTuple's has one")
    if kind is int:
        return integer
    if kind is bool:
        return truth
    if get_origin(kind) is Literal:
        return partial(choice, options=get_args(kind))
    if get_origin(kind) is Queue:
        (item,) = get_args(kind)
        return partial(SymbolicQueue.any_queue, any_item=any_value(item))
    if get_origin(kind) is Family:
        (member,) = get_args(kind)
        return partial(SymbolicFamily.any_family, any_member=any_value(member))
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        return lambda name: arbitrary(kind, f"{name}.")
    raise TypeError(f"there are no symbols for values of the type {kind}; give this field a value of its own")


def subject_of(
    system: System[S, P],
    invariant: Mapping[str, Clause[S, P]],
    parameters: type[P],
    state: Callable[..., S],
    *,
    arguments: Mapping[str, Callable[[P], tuple[int, ...]]] = MappingProxyType({}),
    queues: Mapping[str, Callable[[str], object]] = MappingProxyType({}),
) -> Subject[S, P]:
    """A protocol with any parameters that the model accepts, in any state that satisfies its invariant.

    Args:
        system: the model.
        invariant: what every reachable state satisfies.
        parameters: their type.
        state: its type.
        arguments: makes any arguments of the actions that have some.
        queues: makes the queues with known laws, given their names.
    """

    def any_state(of: P) -> S:
        special = {name: make(name) for name, make in queues.items()}
        return assume_all(invariant.values(), arbitrary(state, special=special), of)

    return Subject(system, partial(any_parameters_of, parameters), any_state, arguments)


def assume_all(clauses: Iterable[Callable[[S, P], bool]], state: S, parameters: P) -> S:
    """Go on only where all clauses hold of the state; returns it."""
    for clause in clauses:
        suppose(partial(clause, state, parameters))
    return state


# Called on each path of each proof; reading annotations takes longer than making symbols.
@cache
def _makers(kind: Callable[..., object]) -> tuple[tuple[str, Callable[[str], Any]], ...]:
    hints = get_type_hints(kind)
    # Those of a `collections.namedtuple` have none, and would keep their defaults in every state.
    untyped: dict[str, Any] = dict.fromkeys(getattr(kind, "_fields", ()))
    return tuple((name, _deferred(hint)) for name, hint in (untyped | hints).items())


def _deferred(hint: Any) -> Callable[[str], Any]:
    """A field that is special may have any type, or none."""
    try:
        return any_value(hint)
    except TypeError as error:
        message = str(error)

    def refuse(name: str) -> Any:
        raise TypeError(f"{name}: {message}")

    return refuse
