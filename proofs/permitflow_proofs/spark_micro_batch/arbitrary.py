"""Any parameters and any state of a streaming query, and the invariant that a state satisfies."""

from collections.abc import Callable, Mapping
from typing import cast

from permitflow_model.spark_micro_batch import NO_ROWS, PHASES, SYSTEM, Parameters, Rows, State
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.symbols import (
    any_like,
    assume,
    assuming,
    choice,
    equal,
    implies,
    integer,
    merged,
    natural,
    truth,
)
from permitflow_proofs.permit_channel.arbitrary import Sizes

__all__ = ["INVARIANT", "QUERY", "any_parameters", "any_rows", "any_state", "largest_chunk", "query"]


def any_parameters(**fixed: object) -> Parameters:
    """Any parameters of a query that acknowledges in ``latestOffset`` or ``commit``; its sink publishes once."""
    chosen: dict[str, object] = {
        name: integer(name)
        for name in ("row_count", "batch_cap", "horizon", "staging_rows", "faults")
        if name not in fixed
    }
    chosen |= {name: truth(name) for name in ("driver_crashes", "durable") if name not in fixed}
    if "acknowledge_in" not in fixed:
        chosen["acknowledge_in"] = choice("acknowledge_in", ("latestOffset", "commit", "read"))
    # The premise about parameters is the model's own refusal of bad ones.
    with assuming(ValueError):
        make = cast(Callable[..., Parameters], Parameters)
        parameters = make(**chosen, **fixed, sizes=Sizes(natural("largest_rows")), sink="once")
    assume(parameters.acknowledge_in != "read")
    return parameters


def largest_chunk(parameters: Parameters) -> int:
    """Rows of the largest chunk that may be offered."""
    return max(parameters.sizes)


def any_rows(parameters: Parameters) -> tuple[int]:
    """The size of any chunk that may be offered, or batch that may be published: the argument of both."""
    rows = natural("rows", 1)
    assume(rows <= largest_chunk(parameters))
    return (rows,)


# Clauses that the induction needs besides the specification's own.


def phases_agree(state: State, parameters: Parameters) -> bool:
    """What the driver is at agrees with what logs and sink say."""
    return all(
        (
            *(implies(state.phase == phase, state.committed) for phase in ("idle", "planned")),
            *(implies(state.committed, state.phase != phase) for phase in ("logged", "ready", "staged", "published")),
            implies(state.phase == "logged", parameters.acknowledge_in == "commit"),
            implies(state.published, state.phase != "logged"),
            implies(state.phase == "published", state.published),
            implies(state.phase == "staged", equal(state.staged, Rows(state.start, state.end))),
            implies(state.running, state.phase == "ready"),
            implies(state.start == state.end, state.committed),
        )
    )


def acknowledged_in_time(state: State, parameters: Parameters) -> bool:
    """How far acknowledgements may be behind, by the call in which they are made."""
    if parameters.acknowledge_in == "latestOffset":
        return state.acknowledged == (state.end if state.phase == "planned" else state.start) or (
            state.committed and state.acknowledged == state.end
        )
    if parameters.driver_crashes or state.phase in ("logged", "failed"):
        return True
    return state.phase != "down" and state.acknowledged == state.start


def waiting_is_offered(state: State, parameters: Parameters) -> bool:
    """No chunk that waits is larger than the largest that may be offered."""
    return state.waiting <= largest_chunk(parameters) or state.waiting == 0


def nothing_lost_if_durable(state: State, parameters: Parameters) -> bool:
    """An exchange that keeps its rows has lost none."""
    return not parameters.durable or state.lost == 0


INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    **{
        name: SYSTEM.invariants[name]
        for name in (
            "TypeOK",
            "Bounded",
            "AcknowledgedIsCommitted",
            "PublishedOnceInOrder",
            "CommittedIsPublished",
            "BatchCapped",
            "NeverFails",
        )
    },
    "PhasesAgree": phases_agree,
    "AcknowledgedInTime": acknowledged_in_time,
    "WaitingIsOffered": waiting_is_offered,
    "NothingLostIfDurable": nothing_lost_if_durable,
}
"""What every reachable state satisfies; proved by induction in ``inductive.py``."""


def any_state(parameters: Parameters, invariant: Mapping[str, Clause[State, Parameters]] = INVARIANT) -> State:
    """Any state that satisfies the invariant."""
    numbers = ("waiting", "produced", "acknowledged", "lost", "plan", "start", "end", "output", "misplaced", "faults")
    switches = ("committed", "published", "running")
    values: dict[str, object] = {name: integer(name) for name in numbers}
    values |= {name: truth(name) for name in switches}
    values["phase"] = choice("phase", PHASES)
    values |= {name: any_like(NO_ROWS, name) for name in ("late", "staged")}
    state = cast(Callable[..., State], State)(**values)
    for clause in invariant.values():
        assume(merged(lambda clause=clause: clause(state, parameters)))  # type: ignore[misc]  # binds the loop's value
    return state


def query(**fixed: object) -> Subject[State, Parameters]:
    """The query with any parameters, some of them fixed."""
    return Subject(
        system=SYSTEM,
        any_parameters=lambda: any_parameters(**fixed),
        any_state=any_state,
        any_arguments={"Offer": any_rows, "ProduceBatch": any_rows},
    )


QUERY = query()
