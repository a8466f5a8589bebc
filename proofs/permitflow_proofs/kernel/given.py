"""The given of a claim: which parameters it is about, read from the premises with which it was examined.

A field that the claim fixes, or that it assumes something of, is told.  What the model itself requires of all
parameters is not, and neither is what a claim assumes of states.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import z3

from permitflow_proofs.kernel.paths import Premises

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
        return (*fixed, *cases, *map(self._fact, self.assumed))

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
        if told.lstrip("~").isidentifier():
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


def given_by(premises: Premises) -> Given | None:
    """What a claim has fixed and assumed of the parameters that it has made; None if it has made none."""
    if not premises.parameters:
        return None
    made = cast("Any", premises.parameters[0])
    values = [(one.name, getattr(made, one.name)) for one in fields(made)]
    names = {_name_of(value.term) for _, value in values if hasattr(value, "term")}
    told: dict[int, z3.BoolRef] = {}
    kept = []
    for condition in premises.assumed:
        if not _is_about(condition.term, names):
            continue
        simple = z3.simplify(condition.term)
        if not z3.is_true(simple):
            kept.append(simple)  # its identity is its own only as long as it is kept
            told.setdefault(simple.get_id(), condition.term)
    return Given(
        fixed=tuple((name, value) for name, value in values if _is_fixed(name, value)),
        assumed=tuple(told.values()),
        words={name: value.options for name, value in values if hasattr(value, "options")},
    )


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


def _is_fixed(name: str, value: object) -> bool:
    """Is it something else than a symbol for any value of the field?"""
    term = getattr(value, "term", None)
    return not getattr(value, "is_any", False) if term is None else _name_of(term) != name


def _name_of(term: z3.ExprRef) -> str | None:
    """The name of a symbol, without the number that tells it from others; None for what is no symbol."""
    if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
        return str(term.decl().name()).partition("!")[0]
    return None


def _is_about(condition: z3.BoolRef, names: Container[str | None]) -> bool:
    """Are all its symbols among these?  It may be large, and share parts.

    By Z3's own functions, because its Python classes make and count an object for each part.
    """
    context = condition.ctx.ref()
    ahead, seen = [condition.as_ast()], set[int]()
    while ahead:
        part = ahead.pop()
        if part.value in seen:
            continue
        seen.add(part.value)
        function = z3.Z3_get_app_decl(context, part)
        parts = range(z3.Z3_get_app_num_args(context, part))
        if z3.Z3_get_decl_kind(context, function) == z3.Z3_OP_UNINTERPRETED:
            name = z3.Z3_get_symbol_string(context, z3.Z3_get_decl_name(context, function))
            if parts or name.partition("!")[0] not in names:
                return False
        ahead.extend(z3.Z3_get_app_arg(context, part, at) for at in parts)
    return True


def _concrete(parameters: object) -> list[tuple[z3.ExprRef, z3.ExprRef]]:
    """Each field's symbol, and its value here."""
    found = []
    for one in fields(cast("Any", parameters)):
        value = _concrete_value(parameters, one.name)
        if value is not None:
            found.append((z3.Bool(one.name) if z3.is_bool(value) else z3.Int(one.name), value))
    return found


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
