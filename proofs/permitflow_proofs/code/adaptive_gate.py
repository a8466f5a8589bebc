"""``Gate``, while its target changes, refines ``AdaptiveGate``; and its measure aims within the bounds.

All else that a gate does is told by the claims about ``InputGate``, which hold whatever the target.  What is added is
``Resize``, and one more condition of ``Borrow``, which the only loop that lends keeps (``code-gate-loops``).
"""

from collections.abc import Callable, Mapping
from typing import Any

from permitflow.errors import InvalidParametersError
from permitflow.flows import adaptive_window as measure
from permitflow.flows.gate import core
from permitflow_model import input_gate_credit
from permitflow_model.adaptive_gate import SYSTEM, Parameters, State, is_target, lent
from permitflow_proofs.code.adaptive_window import Unmeasured, any_measure
from permitflow_proofs.code.input_gate.counts import MODULES, any_numbers, as_code
from permitflow_proofs.code.input_gate.receiver import GateCase
from permitflow_proofs.code.refinement import Call, Outcome, attempt, field, is_larger, obligation, put
from permitflow_proofs.code.stand_ins import standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    integer,
    limit,
    merged,
    natural,
    negated,
    truth,
)
from permitflow_proofs.kernel.theorem import Theorem


def _model(made: input_gate_credit.Parameters, gate: core.Gate) -> Parameters:
    """The parameters of the model; the code's own floor is one of its numbers."""
    adaptive = object.__new__(Parameters)
    vars(adaptive).update({**vars(made), "floor": gate.least_target})
    return adaptive


class Resizing(GateCase):
    """A gate with any target."""

    target: int
    """A new one: any number."""

    def begin(self, state: input_gate_credit.State, _made: input_gate_credit.Parameters) -> input_gate_credit.State:
        """No state tells it."""
        self.target = integer("target")
        return state

    def __init__(self) -> None:
        super().__init__()
        limit(is_target(self.before_it.target, self.model))

    @property
    def model(self) -> Parameters:
        """The parameters of the model."""
        return _model(self.parameters, self.silent)

    @property
    def before_it(self) -> State:
        """The state of the model."""
        return State(*self.state, target=self.parameters.floating - self.surplus)


def _aims(case: Resizing, _after: input_gate_credit.State, outcome: Outcome) -> Mapping[str, Any]:
    return {} if outcome.refusal else {"_surplus": case.parameters.floating - case.target}


def _is_resize(case: Resizing, after: input_gate_credit.State, outcome: Outcome) -> bool:
    """Resize where the model can, or to the target that is there; then loans within it, as only loans follow."""
    state = case.before_it
    may = merged(lambda: SYSTEM.is_enabled("Resize", state, case.model, case.target) or case.target == state.target)
    if outcome.refusal is not None:
        return negated(may) and isinstance(outcome.refusal, InvalidParametersError)
    lends_nothing = after.pool >= state.pool
    return all_of([may, any_of([lends_nothing, lent(State(*after, target=case.target), case.model) <= case.target])])


def _measuring() -> tuple[Any, Parameters]:
    """A gate that adapts, with any number of inputs, some of which are over; its pool has the least target."""
    numbers, most = any_numbers()
    over = natural("over")
    limit(over <= numbers.inputs)
    any_history = {"_consumed_rows": natural("consumed_before"), "_largest_cost": natural("largest_cost", 1)}
    gate = put(core.Gate(as_code(numbers, most)), {"_over": over, **any_history})
    made = _model(numbers, gate)
    limit(made.floor <= made.floating)
    return gate, made


def _call(gate: Any, call: Callable[[Any], None]) -> Outcome:
    with standing_in((*MODULES, measure)):
        return attempt(gate, call)


def _observes(wrong: int) -> bool:
    """Whatever was measured, it resizes to a target that Resize may have, or not at all."""
    gate, made = _measuring()
    rows, targets = natural("consumed_rows"), list[int]()
    consumed, most = field(gate, "_consumed_rows"), field(gate, "_largest_cost")
    put(gate, {"_adaptive": any_measure(made.inputs * made.exclusive + made.floating), "resize": targets.append})
    outcome = _call(gate, lambda gate: gate.observe(Unmeasured(), rows, is_busy=truth("is_busy")))
    found, largest = field(gate, "_consumed_rows"), field(gate, "_largest_cost")
    if outcome.refusal is not None or len(targets) > 1 or not is_larger(most, rows).condition(largest):
        return False
    return equal(found, consumed + rows) and all(is_target(target + wrong, made) for target in targets)


def _starts(wrong: int) -> bool:
    """It aims at all credit, from when it is told to adapt; not if the latency cannot be."""
    gate, made = _measuring()
    is_latency = bool(truth("is_latency"))
    outcome = _call(gate, lambda gate: gate.aim_at(0.5 if is_latency else 0))
    adaptive = field(gate, "_adaptive")
    if adaptive is None:
        return not is_latency and isinstance(outcome.refusal, InvalidParametersError)
    return is_latency and equal(adaptive.target, made.inputs * made.exclusive + made.floating + wrong)


def _leaves_something(wrong: int) -> bool:
    """At the least target, one more may be lent while each input has borrowed less than a chunk may need."""
    gate, made = _measuring()
    assume(made.exclusive <= 0)
    least = gate.parameters.max_chunk_cost
    borrowed = natural("borrowed_by_all")
    assume(borrowed <= made.inputs * (least - 1 + wrong))
    return bool(borrowed < made.floor)


_RESIZE = Call(
    "the target changes, or must not",
    Resizing,
    lambda gate, case: gate.resize(case.target),
    lambda case: bool(case.events),
    _aims,
    _is_resize,
)


def theorems() -> tuple[Theorem, ...]:
    """Of the target, and of its measure."""
    return (
        Theorem(
            id="code-adaptive-gate",
            statement=(
                "The running Gate changes its target as its model does, lends nothing beyond it, and "
                "refuses a target that is out of its range; whatever it measures, it aims within the range. At the "
                "least target there is something to lend while each input lacks credit for a chunk."
            ),
            module="AdaptiveGate",
            operator="Resize",
            obligations=(
                obligation(_RESIZE),
                claim("it aims at what was measured", _observes, "at one more"),
                claim("it adapts from now on, or must not", _starts, "one more"),
                claim("the least target leaves something to lend", _leaves_something, "also if each has enough"),
            ),
        ),
    )
