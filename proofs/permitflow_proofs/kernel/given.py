"""The given of a claim: which parameters it is about, read from the premises with which it was examined.

A field that the claim fixes, or that it assumes something of, is told.  So is what a claim requires of the fields in
another way (``kernel/narrowing.py``) on all its paths, and that some parameters are on no path, because all on which
they were decided end in a contradiction.  Not told is what follows from what the model itself requires of all
parameters, and what a claim assumes of states.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import reduce
from operator import add, sub
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import z3

from permitflow_proofs.kernel.coverage import Leaf, Step
from permitflow_proofs.kernel.narrowing import Part, others_in, required_of, said_by, symbols_in
from permitflow_proofs.kernel.paths import Premises
from permitflow_proofs.kernel.terms import (
    Condition,
    assert_all,
    conjunction,
    disjunction,
    identity_of,
    negation,
    simplified,
)

ALL_PARAMETERS = "all parameters"
NO_MODEL = "no model"
"""The scope of claims about queues and numbers alone."""

_OPERATORS = {
    z3.Z3_OP_IMPLIES: (" => ", 0),
    z3.Z3_OP_OR: (" or ", 1),
    z3.Z3_OP_AND: (" and ", 2),
    z3.Z3_OP_LE: (" <= ", 3),
    z3.Z3_OP_LT: (" < ", 3),
    z3.Z3_OP_GE: (" >= ", 3),
    z3.Z3_OP_GT: (" > ", 3),
    z3.Z3_OP_EQ: (" = ", 3),
    z3.Z3_OP_ADD: (" + ", 4),
    z3.Z3_OP_SUB: (" - ", 4),
    z3.Z3_OP_MUL: (" * ", 5),
    z3.Z3_OP_IDIV: (" div ", 5),
}
"""Each with its strength: a part is put in brackets if its own operator is not stronger."""

_OPPOSITES = {z3.Z3_OP_LE: " > ", z3.Z3_OP_LT: " >= ", z3.Z3_OP_GE: " < ", z3.Z3_OP_GT: " <= ", z3.Z3_OP_EQ: " # "}
_SUMS = (z3.Z3_OP_ADD, z3.Z3_OP_SUB)
_OTHER = "other."
"""Stands before a field of the second of two parameters."""
_SOLVER_STEPS = 1_000_000


@dataclass(frozen=True)
class Given:
    """What is given of the parameters; where nothing is, they are any that the model accepts."""

    fixed: tuple[tuple[str, object], ...] = ()
    """Fields with one value, which may be a symbol or a term."""

    cases: tuple[tuple[str, tuple[object, ...]], ...] = ()
    """Fields with several values, where all cases were tried."""

    assumed: tuple[z3.BoolRef, ...] = ()
    """Conditions on the fields; each field's symbol has its name."""

    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The options of each field that is a word; its symbol is the number of one."""

    @property
    def facts(self) -> tuple[str, ...]:
        """In words, each as in ``stop = TRUE`` or ``epochs >= 1``."""
        fixed = (f"{name} = {self._value(value)}" for name, value in self.fixed)
        cases = (f"{name} in {self._value(frozenset(values))}" for name, values in self.cases)
        return tuple(dict.fromkeys((*fixed, *cases, *map(self._fact, self.assumed))))

    def admits(self, parameters: object) -> bool:
        """Is the claim about these parameters?  They are concrete, and such as the model accepts."""
        values = _concrete(parameters)
        for name, value in self.fixed:
            term = getattr(value, "term", None)
            if isinstance(value, int | str | frozenset) and getattr(parameters, name) != value:
                return False
            if term is not None and not _holds(term == _concrete_value(parameters, name), values):
                return False
        if any(getattr(parameters, name) not in options for name, options in self.cases):
            return False
        return all(_holds(condition, values) for condition in self.assumed)

    def _value(self, value: object) -> str:
        """A value as the specification writes it."""
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, frozenset | tuple):
            members = sorted(value, key=lambda one: (isinstance(one, str), one if isinstance(one, int) else str(one)))
            return "{" + ", ".join(map(self._value, members)) + "}"
        term = getattr(value, "term", None)
        return str(value) if term is None else self._told(term)

    def _fact(self, condition: z3.BoolRef) -> str:
        told = self._told(condition)
        if told.lstrip("~").replace(_OTHER, "").isidentifier():
            return f"{told.lstrip('~')} = {'FALSE' if told.startswith('~') else 'TRUE'}"
        return told

    def _told(self, term: z3.ExprRef) -> str:
        """A condition, or a number, as the specification writes it."""
        parts, kind = term.children(), term.decl().kind()
        if kind == z3.Z3_OP_NOT:
            return self._denied(parts[0])
        if kind in (z3.Z3_OP_EQ, z3.Z3_OP_IMPLIES) and z3.is_false(parts[1]):
            return self._denied(parts[0])
        if kind == z3.Z3_OP_EQ and z3.is_true(parts[1]):
            return self._told(parts[0])
        if kind == z3.Z3_OP_ADD:
            taken = [z3.simplify(-part) for part in parts if _is_negative(part)]
            added = [part for part in parts if not _is_negative(part)]
            if taken and added:
                return self._told(reduce(sub, taken, reduce(add, added)))
        if kind in _SUMS:
            parts = [parts[0], *(part for part in parts[1:] if str(part) != "0")]
        if kind in _OPERATORS and len(parts) > 1:
            operator, strength = _OPERATORS[kind]
            return operator.join(self._sides(parts, strength))
        if kind in _SUMS:
            return self._told(parts[0])
        if kind == z3.Z3_OP_ITE:
            condition, one, other = map(self._told, parts)
            return f"(IF {condition} THEN {one} ELSE {other})"
        return _name_of(term) or str(term).replace("\n", " ")

    def _denied(self, term: z3.ExprRef) -> str:
        opposite = _OPPOSITES.get(term.decl().kind())
        return (
            "~".join(["", *self._sides([term], 6)])
            if opposite is None
            else opposite.join(self._sides(term.children(), 3))
        )

    def _sides(self, parts: Sequence[z3.ExprRef], strength: int) -> list[str]:
        """The parts of a term with an operator of this strength; a word's number is told as the word."""
        names = [_name_of(part) or "" for part in parts]
        options = next((self.words[name] for name in names if name in self.words), ())
        told = []
        for part in parts:
            _, own = _OPERATORS.get(part.decl().kind(), ("", 6))
            text = options[part.as_long()] if options and z3.is_int_value(part) else self._told(part)
            told.append(f"({text})" if own <= strength and " " in text else text)
        return told


class GivenReader:
    """Reads what a claim is given, on one path after another."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._made: tuple[object, ...] = ()
        self._fields: list[tuple[str, Any]] = []
        self._names: frozenset[str] = frozenset()
        """Of the symbols in the fields."""
        self._renamed: list[tuple[z3.ExprRef, z3.ExprRef]] = []
        """The largest of a field's sizes, and fields of a second of two parameters; each with what it is told as."""
        self._assumed: list[z3.BoolRef] = []
        self._steps: list[Step] = []
        self._told: Given | None = None
        self._accepted: list[z3.BoolRef] = []
        self._known: list[tuple[list[z3.BoolRef], list[z3.BoolRef]]] = []
        """Of each path: what is known of the fields, and what of that is required, and not told yet."""
        self._about: dict[int, tuple[Condition, bool]] = {}
        """Is a condition about the fields alone?  By its identity: the same object is met on many paths."""
        self._followed: dict[tuple[int, ...], tuple[Sequence[z3.BoolRef], bool]] = {}

    def read(self, premises: Premises) -> Given | None:
        """What a claim has fixed and assumed of the parameters on a path; None if it has made none."""
        if not premises.parameters:
            return None
        self._look_at(premises.parameters)
        assumed = [condition.term for condition in premises.assumed if self._is_alone(condition)]
        steps = [step for step in premises.leaf if said_by(step, self._names).parts]
        is_same = steps == self._steps and [*map(identity_of, assumed)] == [*map(identity_of, self._assumed)]
        if self._told is None or not is_same:
            self._assumed, self._steps = assumed, steps
            self._accepted = [simplified(condition.term) for condition in premises.accepted]
            self._told = Given(
                fixed=tuple((name, value) for name, value in self._fields if _is_fixed(name, value)),
                assumed=tuple(self._assumed_by(assumed, steps)),
                words={
                    name: value.options
                    for field_name, value in self._fields
                    if hasattr(value, "options")
                    for name in (field_name, f"{_OTHER}{field_name}")
                },
            )
        return self._told

    def given(self, others: Iterable[Leaf] | None = None) -> Given | None:
        """The same with what else is required of the fields on all paths, those that were decided there included.

        ``others``: the paths that end at a guard, once all were walked.  Parameters that are on no path are left out.
        """
        if self._told is None:
            return None
        more = {identity_of(term): term for _, required in self._known for term in required}
        common = [term for term in more.values() if all(self._follows(known, term) for known, _ in self._known)]
        told = [*self._told.assumed, *common]
        accepted = set(map(identity_of, self._accepted))
        ends = [[term for term in known if identity_of(term) not in accepted] for known, _ in self._known]
        ends += [[step.term for step in leaf if said_by(step, self._names).is_alone] for leaf in others or ()]
        any_end = disjunction([*map(conjunction, ends)])
        if others is not None and not self._follows([*self._accepted, *told], any_end):
            told.append(any_end)
        return replace(self._told, assumed=tuple(z3.substitute(one, *self._renamed) for one in told))

    def _look_at(self, made: tuple[object, ...]) -> None:
        """Learn the fields of these parameters."""
        if list(map(id, made)) == list(map(id, self._made)):
            return
        self._made = made
        by_place = [[(one.name, getattr(each, one.name)) for one in fields(cast("Any", each))] for each in made]
        self._fields = [each for its in by_place for each in its]
        of_each = [(_OTHER * place, name, value) for place, its in enumerate(by_place) for name, value in its]
        largest = [(before, name, value.largest.term) for before, name, value in of_each if hasattr(value, "largest")]
        self._renamed = [(term, z3.Int(f"{before}{_largest_of(name)}")) for before, name, term in largest]
        self._renamed += [
            (value.term, z3.Const(f"{before}{name}", value.term.sort()))
            for before, name, value in of_each
            if before and _is_free(name, value)
        ]
        terms = [value.term for _, value in self._fields if hasattr(value, "term")] + [term for *_, term in largest]
        names = frozenset[str]().union(*map(symbols_in, terms))
        if names != self._names:
            self._names, self._about = names, {}

    def _is_alone(self, condition: Condition) -> bool:
        """Is it about the fields alone?"""
        if id(condition) not in self._about:
            self._about[id(condition)] = condition, not others_in(condition.term, self._names)
        return self._about[id(condition)][1]

    def _assumed_by(self, assumed: Sequence[z3.BoolRef], steps: Sequence[Step]) -> list[z3.BoolRef]:
        """What is assumed of the fields, as it was written.  Notes what is known of them, and what is told nowhere."""
        # A term's identity is its own only as long as the term is kept.
        simple = {identity_of(one): (one, term) for term in assumed if not z3.is_true(one := simplified(term))}
        known, more, parts = list(self._accepted), list[z3.BoolRef](), list[Part]()
        for step in steps:
            said, term = said_by(step, self._names), step.term
            if not said.is_alone:
                parts += said.parts
                continue
            if not step.is_decided and identity_of(term) not in simple and not self._follows(known, term):
                more.append(term)
            known.append(term)
        for term in required_of(self._names, parts):
            if not self._follows(known, term):
                more.append(term)
                known.append(term)
        self._known.append((known, more))
        return [term for _, term in simple.values()]

    def _follows(self, known: Sequence[z3.BoolRef], condition: z3.BoolRef) -> bool:
        """Does it follow from what is known?"""
        terms = [*known, condition]
        asked = tuple(map(identity_of, terms))
        if asked not in self._followed:
            solver = z3.SimpleSolver()
            solver.set("rlimit", _SOLVER_STEPS)
            solver.set("ctrl_c", False)  # as in ``Trail``
            assert_all(solver, [*known, negation(condition)])
            self._followed[asked] = terms, bool(solver.check() == z3.unsat)
        return self._followed[asked][1]


def given_by(premises: Premises) -> Given | None:
    """What a claim is given, by one path."""
    reader = GivenReader()
    reader.read(premises)
    return reader.given()


def given_in(cases: Sequence[object]) -> Given:
    """The parameters of cases that were tried one by one."""
    names = [one.name for one in fields(cast("Any", cases[0]))] if cases and is_dataclass(cases[0]) else []
    values = {name: tuple(dict.fromkeys(getattr(case, name) for case in cases)) for name in names}
    return Given(
        fixed=tuple((name, found[0]) for name, found in values.items() if len(found) == 1),
        cases=tuple((name, found) for name, found in values.items() if len(found) > 1),
    )


def given_of_all(parts: Iterable[tuple[str, ...] | None]) -> str:
    """The facts of several claims as one text: those of all claims, then what only some of them are given."""
    known = [facts for facts in parts if facts is not None]
    if not known:
        return NO_MODEL
    common = [fact for fact in known[0] if all(fact in facts for facts in known)]
    rests = [tuple(fact for fact in facts if fact not in common) for facts in known]
    some = [f"in {rests.count(rest)} of {len(rests)}: {', '.join(rest)}" for rest in dict.fromkeys(rests) if rest]
    return "; ".join([*([", ".join(common)] if common else []), *some]) or ALL_PARAMETERS


def _is_negative(term: z3.ExprRef) -> bool:
    """Is it a number below 0, or a multiple by one?"""
    factor = term.arg(0) if term.decl().kind() == z3.Z3_OP_MUL else term
    return bool(z3.is_int_value(factor) and factor.as_long() < 0)


def _is_free(name: str, value: object) -> bool:
    """Is it a symbol for any value of the field?"""
    return _name_of(getattr(value, "term", z3.IntVal(0))) == name


def _is_fixed(name: str, value: object) -> bool:
    """Is it something else than any value of the field?"""
    return not (getattr(value, "is_any", False) or _is_free(name, value))


def _name_of(term: z3.ExprRef) -> str | None:
    """The name of a symbol, without the number that tells it from others; None for what is no symbol."""
    if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
        return str(term.decl().name()).partition("!")[0]
    return None


def _concrete(parameters: object) -> list[tuple[z3.ExprRef, z3.ExprRef]]:
    """Each field's symbol, and its value here."""
    found = []
    for one in fields(cast("Any", parameters)):
        value = _concrete_value(parameters, one.name)
        if value is not None:
            found.append((z3.Bool(one.name) if z3.is_bool(value) else z3.Int(one.name), value))
        elif isinstance(sizes := getattr(parameters, one.name), tuple | frozenset) and _are_numbers(sizes):
            found.append((z3.Int(_largest_of(one.name)), z3.IntVal(max(sizes))))
    return found


def _are_numbers(values: Collection[object]) -> bool:
    return bool(values) and all(isinstance(value, int) for value in values)


def _largest_of(name: str) -> str:
    """As what the largest of a field's sizes is told."""
    return f"max({name})"


def _concrete_value(parameters: object, name: str) -> z3.ExprRef | None:
    """A field's value; None if no symbol stands for such values."""
    value, hint = getattr(parameters, name), get_type_hints(type(parameters))[name]
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if isinstance(value, int):
        return z3.IntVal(value)
    return z3.IntVal(get_args(hint).index(value)) if get_origin(hint) is Literal else None


def _holds(condition: z3.BoolRef, values: list[tuple[z3.ExprRef, z3.ExprRef]]) -> bool:
    return bool(z3.is_true(z3.simplify(z3.substitute(condition, *values))))
