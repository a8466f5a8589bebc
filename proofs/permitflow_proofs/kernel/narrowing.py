"""What the conditions of a path require of some symbols alone, such as the fields of parameters.

A value that must equal some number of the fields is that number: ``n = size`` and ``n >= 5`` require ``size >= 5``.
Other values, such as those of a state, are not eliminated: what a claim assumes of them says nothing of the fields.
"""

import sys
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import z3

from permitflow_proofs.kernel.coverage import Step
from permitflow_proofs.kernel.terms import identity_of, kind_of, parts_of, simplified

_MOST = 2
"""A condition on more values besides the fields does not say what one of them is."""


class Part(NamedTuple):
    """A condition, or a part of one that says several things."""

    term: z3.BoolRef
    others: list[z3.ExprRef]
    """The values in it that are no fields; some of them if they are many."""
    value: z3.ExprRef | None
    """What its only other value is, if it says that."""


class Said(NamedTuple):
    """What a step says of the fields."""

    is_alone: bool
    """Does it speak of nothing else?"""
    parts: list[Part]
    """What it says of them, perhaps with a few other values; with none, if it was decided."""


def said_by(step: Step, names: frozenset[str]) -> Said:
    """What a step says of the fields of these names."""
    known = _READ.get(step)
    if known is None or known[0] != names:
        is_several = kind_of(step.term) == z3.Z3_OP_AND and not step.is_decided
        parts = [_part(term, names) for term in (parts_of(step.term) if is_several else [step.term])]
        most = 0 if step.is_decided else _MOST
        said = Said(not any(part.others for part in parts), [part for part in parts if len(part.others) <= most])
        known = _READ[step] = names, said
    return known[1]


_READ: WeakKeyDictionary[Step, tuple[frozenset[str], Said]] = WeakKeyDictionary()
"""What steps say: many claims have the same beginning."""


def _part(term: z3.BoolRef, names: frozenset[str]) -> Part:
    others = others_in(term, names)
    return Part(term, others, _solved(term, others[0]) if len(others) == 1 else None)


def required_of(names: frozenset[str], parts: Iterable[Part]) -> list[z3.BoolRef]:
    """What these say of the fields alone."""
    found, ahead = [], list(parts)
    while True:
        found += [part.term for part in ahead if not part.others]
        ahead = [part for part in ahead if part.others]
        values = {identity_of(part.others[0]): (part.others[0], part.value) for part in ahead if part.value is not None}
        if not values:
            return found
        for at, part in enumerate(ahead):
            known = [values[identity] for identity in map(identity_of, part.others) if identity in values]
            if known:
                ahead[at] = _part(simplified(z3.substitute(part.term, *known)), names)


def symbols_in(term: z3.ExprRef) -> frozenset[str]:
    """The names of all that it is made of."""
    return frozenset(one.decl().name() for one in others_in(term, frozenset(), most=sys.maxsize))


def others_in(term: z3.ExprRef, names: frozenset[str], most: int = _MOST) -> list[z3.ExprRef]:
    """The values in it that are no fields, each once; some of them if they are more than ``most``.

    By Z3's own functions, because its Python classes make and count an object for each part; a term may be large, and
    share parts.
    """
    context = term.ctx.ref()
    ahead, seen, found = [term.as_ast()], set[int](), list[z3.ExprRef]()
    while ahead and len(found) <= most:
        part = ahead.pop()
        if part.value in seen:
            continue
        seen.add(part.value)
        function = z3.Z3_get_app_decl(context, part)
        parts = range(z3.Z3_get_app_num_args(context, part))
        if z3.Z3_get_decl_kind(context, function) == z3.Z3_OP_UNINTERPRETED:
            name = z3.Z3_get_symbol_string(context, z3.Z3_get_decl_name(context, function))
            if parts or name not in names:
                found.append(z3.ExprRef(part, term.ctx))
                continue
        ahead.extend(z3.Z3_get_app_arg(context, part, at) for at in parts)
    return found


def _solved(part: z3.BoolRef, one: z3.ExprRef) -> z3.ExprRef | None:
    """The value that makes this condition true, if it is the only one, and plain to see."""
    if not z3.is_eq(part):
        denied = z3.is_not(part)
        return z3.BoolVal(not denied) if one.eq(part.children()[0] if denied else part) else None
    left, right = part.children()
    if left.sort() != z3.IntSort() or one.sort() != z3.IntSort():
        return right if one.eq(left) else left if one.eq(right) else None
    zero, first, second = (z3.substitute(left - right, (one, z3.IntVal(number))) for number in range(3))
    slope = z3.simplify(first - zero, som=True)
    if str(slope) not in ("1", "-1") or not z3.simplify(second - first, som=True).eq(slope):
        return None
    return z3.simplify(-slope * zero)
