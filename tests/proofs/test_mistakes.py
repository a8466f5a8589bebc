"""Each mistake of ``permitflow_model.mistakes`` makes the proof of its clause fail, and the explorer finds its run."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import pytest

from permitflow_model import mistakes
from permitflow_model.kernel.explore import explore
from permitflow_model.mistakes import Mistake, mistaken
from permitflow_model.mute import Signal
from permitflow_model.permit_channel import SYSTEM as PERMITS
from permitflow_proofs import (
    adaptive_gate,
    adaptive_window,
    blocking_echo,
    bridge,
    byte_window,
    conflate,
    demand,
    diamond,
    direct_task,
    drop_queue,
    fan_in,
    feedback_loop,
    grpc_call,
    hash_dispatch,
    input_gate,
    kept_channel,
    loop_chain,
    lossy_channel,
    mute,
    mute_delay,
    mute_links,
    mute_scheduler,
    named_producer,
    port_machine,
    resume,
    shared_window,
    spark_micro_batch,
    squelch,
    staging,
    stop_and_wait,
    store_journal,
    store_owner,
    stream_life_states,
    token_bucket,
    withdrawing_gate,
)
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.permit_channel.arbitrary import CHANNEL
from permitflow_proofs.permit_channel.arbitrary import INVARIANT as CHANNEL_INVARIANT
from permitflow_proofs.permit_channel.inductive import NUMBERED
from permitflow_proofs.permit_channel.refinement import CHUNKS, SEEN
from tests.support.mistaken import run_into, system_with, verdict_on, with_mistake

REFINED = "BoundedQueue"
"""Stands for the clause that a step is a step of the queue, or none."""

PROVED_OTHERWISE = {"HeldThroughout", "MutedByIsAcyclic", "NeverStuck", "PublishedWhole"}
"""Not as a clause that each action keeps: of these the explorer alone must find the mistake."""

UNPROVED = ("stage_graph",)
"""No theorem is about them: likewise."""


class Proof(NamedTuple):
    """Clauses, and what they are proved about."""

    clauses: Mapping[str, Clause[Any, Any]]
    subject: Subject[Any, Any]


def _of_any_hop(clause: Callable[..., bool], state: Any, parameters: Any) -> bool:
    return clause(mute_links.view_of(state, parameters), parameters)


PROOFS: dict[str, tuple[Proof, ...]] = {
    "permit_channel": (
        Proof({"ExactlyOnceInOrder": PERMITS.invariants["ExactlyOnceInOrder"]}, NUMBERED),
        Proof(CHANNEL_INVARIANT, CHANNEL),
    ),
    "input_gate": (
        Proof(input_gate.INVARIANT, input_gate.SUBJECT),
        Proof(input_gate.EPOCHS_INVARIANT, input_gate.EPOCHS),
    ),
    "adaptive_gate": (
        Proof(adaptive_gate.INVARIANT, adaptive_gate.SUBJECT),
        Proof(input_gate.INVARIANT, adaptive_gate.SUBJECT),
    ),
    "withdrawing_gate": (
        Proof(withdrawing_gate.CLAUSES_TOGETHER, withdrawing_gate.SUBJECT),
        Proof(withdrawing_gate.EPOCHS_INVARIANT, withdrawing_gate.EPOCHS),
    ),
    "fan_in": tuple(Proof({name: fan_in.INVARIANT[name]}, subject) for name, subject in fan_in.SUBJECTS.items()),
    "store_owner": (
        Proof({"Confirmed": store_owner.INVARIANT["Confirmed"]}, store_owner.CONFIRMING),
        Proof({"KeptOnce": store_owner.INVARIANT["KeptOnce"]}, store_owner.KEEPING),
        Proof(store_owner.INVARIANT, store_owner.SUBJECT),
    ),
    "spark_micro_batch": (Proof(spark_micro_batch.INVARIANT, spark_micro_batch.QUERY),),
    "mute_links": (
        Proof({name: partial(_of_any_hop, clause) for name, clause in mute_links.CLAUSES.items()}, mute_links.SUBJECT),
    ),
    "stream_life": (Proof(stream_life_states.INVARIANT, stream_life_states.SUBJECT),),
} | {
    module.__name__.rpartition(".")[2]: (Proof(module.INVARIANT, module.SUBJECT),)
    for module in (
        *(conflate, demand, drop_queue, grpc_call, loop_chain, mute, mute_delay, mute_scheduler, port_machine),
        *(squelch, stop_and_wait, token_bucket, blocking_echo, diamond, feedback_loop, lossy_channel, resume),
        *(adaptive_window, byte_window, hash_dispatch, bridge, shared_window, staging),
        *(direct_task, kept_channel, named_producer, store_journal),
    )
}
# Of each protocol, in `make test`; the others take a second or two each.
SAMPLE = 1
MISTAKES = [
    pytest.param(
        protocol,
        mistake,
        id=f"{protocol}: {mistake}: {mistake.breaks}",
        marks=[] if number < SAMPLE else [pytest.mark.long],
    )
    for protocol in (*PROOFS, *UNPROVED)
    for number, mistake in enumerate(import_module(f"permitflow_model.mistakes.{protocol}").MISTAKES)
]


def test_every_table_of_mistakes_is_tried() -> None:
    assert {module.name for module in iter_modules(mistakes.__path__)} == PROOFS.keys() | {*UNPROVED}


@pytest.mark.parametrize(("protocol", "mistake"), MISTAKES)
def test_a_mistake_breaks_its_clause_and_the_explorer_finds_the_run(protocol: str, mistake: Mistake) -> None:
    if mistake.breaks == REFINED:
        wrong = with_mistake(mistake, SEEN)
        assert decide(lambda: CHUNKS.view.implements(wrong, mistake.action)).outcome == "refuted"
    elif protocol not in UNPROVED and (clause := mistake.at_once or mistake.breaks) not in PROVED_OTHERWISE:
        clauses, subject = next(proof for proof in PROOFS[protocol] if clause in proof.clauses)
        assert verdict_on(clauses[clause], with_mistake(mistake, subject), mistake.action) == "refuted"
    if mistake.parameters is not None:
        system = system_with(protocol)
        assert run_into(system, mistake)
        assert not explore(system, mistake.parameters, stop_at_violation=True).violations


@pytest.mark.parametrize("action", ["Deliver", "SendChunk"])
def test_without_a_mistake_a_channel_refines_its_queue(action: str) -> None:
    assert decide(lambda: CHUNKS.view.implements(SEEN, action)).outcome == "proved"


def test_a_node_tells_of_each_muter_by_its_own_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def or_of_the_first(muter: int, epoch: int) -> Signal:
        return Signal(muter + 1, epoch) if epoch > 0 else Signal(1, 5)

    (laws,) = (each for each in mute_links.theorems() if each.id == "mute-links-laws")
    (alone,) = (each for each in laws.obligations if each.name == "others say nothing")
    assert alone.examine().outcome == "proved"
    monkeypatch.setattr(mute_links, "signal_of", or_of_the_first)
    assert alone.examine().outcome == "refuted"


def test_no_shorter_run_loses_the_newest_watermark() -> None:
    """Specification and model may make a mistake alike: their graphs are equal, and only a statement notices it."""
    table = import_module("permitflow_model.mistakes.permit_channel").MISTAKES
    (mistake,) = (each for each in table if each.action == "WithdrawBarrier")
    violation = explore(mistaken(PERMITS, mistake), mistake.parameters, stop_at_violation=True).violations[0]
    assert violation.invariant == "NewestWatermarkKept" == mistake.breaks
    assert [step.action for step in violation.steps] == ["OfferBarrier", "OfferWatermark", "WithdrawBarrier"]
