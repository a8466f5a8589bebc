"""Terms of Z3, made by its own constructors: its Python operators look at each operand's sort, three times as long."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast

import z3

_CONTEXT = z3.main_ctx()
_REF = _CONTEXT.ref()


def built_truth(make: Callable[..., object], *terms: z3.ExprRef) -> z3.BoolRef:
    """The condition that a constructor makes of this many terms."""
    return z3.BoolRef(make(_REF, *[term.ast for term in terms]), _CONTEXT)


def built_number(make: Callable[..., object], *terms: z3.ExprRef) -> z3.ArithRef:
    """The number that a constructor makes of this many terms."""
    return z3.ArithRef(make(_REF, *[term.ast for term in terms]), _CONTEXT)


def array(*terms: z3.ExprRef) -> tuple[int, object]:
    """Terms for a constructor that takes any number of them."""
    return len(terms), (z3.Ast * len(terms))(*[term.ast for term in terms])


def conjunction(terms: Sequence[z3.BoolRef]) -> z3.BoolRef:
    """All of them; true for none."""
    if len(terms) < 2:
        return terms[0] if terms else z3.BoolVal(True)
    return z3.BoolRef(z3.Z3_mk_and(_REF, *array(*terms)), _CONTEXT)


def disjunction(terms: Sequence[z3.BoolRef]) -> z3.BoolRef:
    """At least one of them; false for none."""
    if len(terms) < 2:
        return terms[0] if terms else z3.BoolVal(False)
    return z3.BoolRef(z3.Z3_mk_or(_REF, *array(*terms)), _CONTEXT)


def negation(term: z3.BoolRef) -> z3.BoolRef:
    """The opposite."""
    return built_truth(z3.Z3_mk_not, term)


def simplified(term: z3.BoolRef) -> z3.BoolRef:
    """The same condition, as Z3 writes all that it knows to be equal."""
    return built_truth(z3.Z3_simplify, term)


def kind_of(term: z3.BoolRef) -> int:
    """The kind of its operator."""
    return cast(int, z3.Z3_get_decl_kind(_REF, z3.Z3_get_app_decl(_REF, term.ast)))


def parts_of(term: z3.BoolRef) -> list[z3.BoolRef]:
    """The conditions of which a condition is made by a truth function."""
    parts = range(z3.Z3_get_app_num_args(_REF, term.ast))
    return [z3.BoolRef(z3.Z3_get_app_arg(_REF, term.ast, at), _CONTEXT) for at in parts]


def assert_all(solver: z3.Solver, terms: Iterable[z3.BoolRef]) -> None:
    """Let a solver assume these."""
    for term in terms:
        z3.Z3_solver_assert(_REF, solver.solver, term.ast)


def identity_of(term: z3.ExprRef) -> int:
    """The same for equal terms, as long as one of them is kept."""
    return cast(int, term.ast.value)


class Condition(Protocol):
    """A condition whose term is built when it is needed: a path that is walked again needs none."""

    @property
    def term(self) -> z3.BoolRef:
        """The condition for Z3."""
        ...
