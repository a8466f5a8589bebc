"""And, or, not: Z3's own calls, without the wrapper's search for a common sort, which took a third of all time."""

from collections.abc import Sequence

import z3

__all__ = ["conjunction", "disjunction", "negation"]


def conjunction(terms: Sequence[z3.BoolRef]) -> z3.BoolRef:
    """All of them; true for none."""
    if len(terms) < 2:
        return terms[0] if terms else z3.BoolVal(True)
    context = z3.main_ctx()
    return z3.BoolRef(z3.Z3_mk_and(context.ref(), len(terms), _array(terms)), context)


def disjunction(terms: Sequence[z3.BoolRef]) -> z3.BoolRef:
    """At least one of them; false for none."""
    if len(terms) < 2:
        return terms[0] if terms else z3.BoolVal(False)
    context = z3.main_ctx()
    return z3.BoolRef(z3.Z3_mk_or(context.ref(), len(terms), _array(terms)), context)


def negation(term: z3.BoolRef) -> z3.BoolRef:
    """The opposite."""
    context = z3.main_ctx()
    return z3.BoolRef(z3.Z3_mk_not(context.ref(), term.as_ast()), context)


def _array(terms: Sequence[z3.BoolRef]) -> object:
    array = (z3.Ast * len(terms))()
    for index, term in enumerate(terms):
        array[index] = term.as_ast()
    return array
