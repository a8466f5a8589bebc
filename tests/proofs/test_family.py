"""What is proved of a family holds for any number of members: shown on channels that share a pool."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import add
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow_model.kernel.family import Family, Members, some
from permitflow_model.kernel.system import require
from permitflow_proofs import Theorem, prove
from permitflow_proofs.kernel.arbitrary import arbitrary
from permitflow_proofs.kernel.family import ACTING, SymbolicFamily, each_in_focus, holds_in_focus
from permitflow_proofs.kernel.family_facts import family_obligations
from permitflow_proofs.kernel.induction import Clause, Fault
from permitflow_proofs.kernel.obligation import Obligation, SymbolicObligation, decide, take
from permitflow_proofs.kernel.paths import Explorer
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import assume, integer, merged, suppose, truth
from tests.support.shared_pool import (
    SYSTEM,
    Channel,
    Message,
    Parameters,
    State,
    is_blocked,
    is_message,
    never_stuck,
    opened_again,
)
from tests.support.shared_pool_proofs import (
    INVARIANT,
    any_message,
    any_parameters,
    any_state,
    at_most_held,
    order_kept,
    permits_held,
    subject,
    with_the_one_that_moves,
)

# Members that are numbers.


def itself(member: int) -> int:
    return member


def squared(member: int) -> int:
    return member * member


def plus(member: int, more: int) -> int:
    return member + more


def is_below(member: int, bound: int) -> bool:
    return member < bound


def any_numbers(focus: int = 1) -> SymbolicFamily[int]:
    return SymbolicFamily.any_family("numbers", integer, focus)


def proved(claim: Callable[[], bool]) -> bool:
    found = decide(claim)
    return found.outcome == "proved" and found.reached > 0


def refuted(claim: Callable[[], bool]) -> bool:
    return decide(claim).outcome == "refuted"


def test_what_is_known_of_members_and_items_is_no_premise() -> None:
    def claim() -> bool:
        SymbolicQueue.any_queue("queue", integer).sum_of(itself, add, 0)
        any_numbers().every(is_below, 3)
        return True

    (path,) = Explorer().paths(claim)
    assert [str(premise.term) for premise in path.premises.assumed] == ["numbers.others >= 0"]


@pytest.mark.parametrize("obligation", family_obligations(), ids=lambda obligation: obligation.name)
def test_each_assumption_is_proved_of_arrays(obligation: SymbolicObligation) -> None:
    examination = obligation.examine()
    assert examination.outcome == "proved"
    assert examination.could_fail


@settings(max_examples=20)
@given(st.lists(st.integers(-2, 3), min_size=1, max_size=5).map(Members), st.integers(-1, 2), st.integers(0, 3))
def test_the_assumptions_exclude_no_real_family(real: Members[int], more: int, bound: int) -> None:
    def all_answers(numbers: Family[int]) -> list[int | bool]:
        """Before and after a change of all, and of one."""
        changed = numbers.map(plus, more).put(0, bound)
        return [
            numbers.size(),
            *(each.get(0) for each in (numbers, changed)),
            *(each.every(is_below, number) for each in (numbers, changed) for number in (bound, bound + 1)),
            numbers.sum_of(itself),
            changed.sum_of(squared),
        ]

    def claim() -> bool:
        for symbolic, known in zip(all_answers(any_numbers()), all_answers(real), strict=True):
            assume(symbolic == known)
        return True

    assert proved(claim)


def test_a_sum_stays_when_one_more_member_comes_into_focus() -> None:
    def claim(more: int) -> bool:
        numbers = any_numbers()
        total = numbers.sum_of(itself)
        return numbers.with_some(is_below, 0).sum_of(itself) == total + more

    assert proved(partial(claim, 0))
    assert refuted(partial(claim, 1))


@pytest.mark.parametrize("second", [0, 1])
def test_what_holds_in_focus_holds_for_each_member_there(second: int) -> None:
    found = decide(lambda: holds_in_focus(is_below, Members((0, second)), 1))
    assert found.outcome == ("refuted" if second else "proved")


def is_other(one: int, another: int) -> bool:
    return one != another


def all_differ(numbers: Family[int]) -> bool:
    return each_in_focus(lambda _: True, numbers, is_other)


def test_each_two_members_in_focus_are_compared() -> None:
    def still(more: int) -> bool:
        numbers = any_numbers(2)
        suppose(partial(all_differ, numbers))
        return all_differ(numbers.put(0, numbers.get(0) + more))

    assert proved(partial(still, 0))
    assert refuted(partial(still, 1))
    assert proved(lambda: all_differ(Members((2, 1, 3))) and not all_differ(Members((2, 1, 1))))


def test_a_property_of_all_members_holds_in_focus_and_for_one_more() -> None:
    def claim(bound: int) -> bool:
        numbers = any_numbers()
        numbers.assume_every(is_below, 3)
        numbers = numbers.with_some(is_below, 0)
        return all(number < bound for number in in_focus(numbers))

    assert proved(partial(claim, 3))
    assert refuted(partial(claim, 2))


def test_a_sum_is_known_only_by_what_is_known_of_each() -> None:
    def claim(*, known: bool) -> bool:
        numbers = any_numbers()
        assume(numbers.get(0) == 1)
        if known:
            assume(not numbers.map(plus, 1).every(is_below, 1))
            numbers.assume_every(is_positive)
        return numbers.sum_of(itself) >= 1

    assert proved(partial(claim, known=True))
    assert refuted(partial(claim, known=False))


def is_positive(member: int) -> bool:
    return member > 0


def test_the_focused_one_is_no_longer_among_the_others() -> None:
    def claim(least: int) -> bool:
        numbers = any_numbers()
        numbers.assume_every(is_positive)
        numbers = numbers.map(plus, 1).with_some(is_below, 1).with_some(is_below, 1)
        seen = in_focus(numbers)
        if len(seen) < 3:
            return True
        return bool(numbers.sum_of(itself) >= sum(seen) + least * (numbers.size() - 3))

    assert proved(partial(claim, 0))
    assert refuted(partial(claim, 3))


def test_one_for_which_it_holds_comes_into_focus_if_there_is_one() -> None:
    def claim(*, there_is_one: bool) -> bool:
        numbers = any_numbers()
        if there_is_one:
            assume(not numbers.map(plus, 0).every(is_positive))
            assume(numbers.get(0) > 0)
        numbers = numbers.with_some(is_not_positive)
        return any(number <= 0 for number in in_focus(numbers))

    assert proved(partial(claim, there_is_one=True))
    assert refuted(partial(claim, there_is_one=False))


def is_not_positive(member: int) -> bool:
    return member <= 0


def test_members_that_are_not_in_focus_have_no_name() -> None:
    with pytest.raises(TypeError, match="only 1 members are in focus, not 1; with_some brings one more"):
        decide(lambda: any_numbers().get(1) == 0)
    assert proved(lambda: len(in_focus(any_numbers(focus=2))) == 2)


# Whom a claim has in focus, it chooses.


class Flags(NamedTuple):
    waits: bool
    is_full: bool


def waits(member: Flags) -> bool:
    return member.waits


def is_full(member: Flags) -> bool:
    return member.is_full


def is_both(member: Flags) -> bool:
    return member.waits and member.is_full


def in_focus(family: SymbolicFamily[Any]) -> list[Any]:
    return [member for word, member in family.parts() if word != "others"]


def any_flags(focus: int = 1) -> SymbolicFamily[Flags]:
    return SymbolicFamily.any_family("flags", lambda name: arbitrary(Flags, f"{name}."), focus)


@pytest.mark.parametrize("focus", [1, 2])
def test_some_and_some_need_not_be_the_same(focus: int) -> None:
    def some_of_each(flags: SymbolicFamily[Flags]) -> bool:
        return some(flags, waits) and some(flags, is_full)

    assert refuted(lambda: not some_of_each(flags := any_flags(focus)) or some(flags, is_both))
    assert proved(lambda: not some(flags := any_flags(focus), is_both) or some_of_each(flags))


def test_one_that_is_chosen_is_so_if_any_is() -> None:
    def claim(*, is_chosen: bool) -> bool:
        flags = any_flags()
        if is_chosen:
            flags.choose(waits)
        return not some(flags, waits) or in_focus(flags)[0].waits

    assert proved(partial(claim, is_chosen=True))
    assert refuted(partial(claim, is_chosen=False))


def chosen_twice(flags: SymbolicFamily[Flags]) -> None:
    flags.choose(waits)
    flags.choose(is_full)


def chosen_and_acting(flags: SymbolicFamily[Flags]) -> None:
    flags.choose(waits)
    flags.get(ACTING)


def chosen_and_asked(flags: SymbolicFamily[Flags]) -> None:
    flags.choose(waits)
    holds_in_focus(is_full, flags)


def asked_twice(flags: SymbolicFamily[Flags]) -> None:
    holds_in_focus(waits, flags)
    each_in_focus(lambda name: flags.get(name).is_full, flags)


def asked_after_a_step(flags: SymbolicFamily[Flags]) -> None:
    holds_in_focus(waits, flags.put(ACTING, Flags(waits=True, is_full=True)))


def asked_with_a_witness(flags: SymbolicFamily[Flags]) -> None:
    flags.choose(waits)
    holds_in_focus(is_full, flags.with_some(waits))


def chosen_and_assumed(flags: SymbolicFamily[Flags]) -> None:
    assume(not flags.get(0).waits)
    flags.with_some(is_full).choose(waits)


def chosen_and_changed(flags: SymbolicFamily[Flags]) -> None:
    flags.put(0, Flags(waits=False, is_full=False))
    flags.choose(waits)


def chosen_and_seen_beside_a_witness(flags: SymbolicFamily[Flags]) -> None:
    flags.with_some(is_full).get(0)
    flags.choose(waits)


def chosen_and_seen_in_a_condition(flags: SymbolicFamily[Flags]) -> None:
    merged(lambda: flags.get(0).waits)
    if not truth("others"):
        flags.choose(waits)


def asked_and_assumed(flags: SymbolicFamily[Flags]) -> None:
    assume(flags.get(0).waits)
    holds_in_focus(waits, flags)


def asked_and_assumed_of_a_witness(flags: SymbolicFamily[Flags]) -> None:
    flags = flags.with_some(is_full)
    assume(flags.size() == 1 or flags.get(1).waits)
    each_in_focus(lambda name: flags.get(name).waits, flags)


USES_OF_THE_FIRST = [
    *(chosen_twice, chosen_and_acting, chosen_and_assumed, chosen_and_changed),
    *(chosen_and_seen_beside_a_witness, chosen_and_seen_in_a_condition),
]
USES = [
    *USES_OF_THE_FIRST,
    *(chosen_and_asked, asked_twice, asked_after_a_step, asked_with_a_witness),
    *(asked_and_assumed, asked_and_assumed_of_a_witness),
]


@pytest.mark.parametrize("use", USES)
def test_a_member_in_focus_is_chosen_for_one_use(use: Callable[[SymbolicFamily[Flags]], None]) -> None:
    def claim(focus: int) -> bool:
        use(any_flags(focus))
        return True

    with pytest.raises(TypeError, match="2 uses of 1 members in focus"):
        decide(partial(claim, 1))
    if use in USES_OF_THE_FIRST:
        with pytest.raises(TypeError, match="2 of the first"):
            decide(partial(claim, 2))
    else:
        assert proved(partial(claim, 2))


def some_wait_not(flags: SymbolicFamily[Flags]) -> bool:
    return not holds_in_focus(waits, flags)


def some_wait_not_by_name(flags: SymbolicFamily[Flags]) -> bool:
    return not each_in_focus(lambda name: flags.get(name).waits, flags)


@pytest.mark.parametrize("is_supposed", [some_wait_not, some_wait_not_by_name])
def test_who_is_not_as_supposed_need_not_be_in_focus(is_supposed: Callable[[SymbolicFamily[Flags]], bool]) -> None:
    def claim(most: int) -> bool:
        flags = any_flags()
        assume(flags.size() <= most)
        suppose(partial(is_supposed, flags))
        return not in_focus(flags)[0].waits

    assert refuted(partial(claim, 2))
    assert proved(partial(claim, 1))


def test_a_question_within_a_merge_is_a_use_on_each_path() -> None:
    def claim() -> bool:
        flags = any_flags()
        merged(lambda: holds_in_focus(waits, flags))
        if in_focus(flags)[0].is_full:
            return True
        return holds_in_focus(is_full, flags)

    with pytest.raises(TypeError, match="2 uses of 1 members in focus"):
        decide(claim)


def test_the_only_member_is_in_focus_for_all_uses() -> None:
    def claim() -> bool:
        flags = SymbolicFamily.any_of_size("flags", lambda name: arbitrary(Flags, f"{name}."), 1)
        asked_after_a_step(flags)
        flags.get(0)
        flags.choose(waits)
        return holds_in_focus(waits, flags) or not some(flags, is_both)

    assert proved(claim)


def test_a_claim_lists_no_members() -> None:
    """It would ask of those in focus what is true, or false, of others."""
    with pytest.raises(TypeError, match="nobody lists the members"):
        decide(lambda: bool(any_flags().names()))


@pytest.mark.parametrize("focus", [1, 2])
def test_whether_others_can_act_is_not_known(focus: int) -> None:
    def one_waits(flags: SymbolicFamily[Flags]) -> bool:
        return flags.some_name(lambda name: flags.get(name).waits)

    def some_act(flags: SymbolicFamily[Flags]) -> bool:
        return one_waits(flags) and flags.some_name(lambda name: flags.get(name).is_full)

    assert proved(lambda: one_waits(flags := any_flags(focus)) or not in_focus(flags)[0].waits)
    assert refuted(lambda: one_waits(any_flags(focus)))
    assert refuted(lambda: not one_waits(flags := any_flags(focus)) or in_focus(flags)[0].waits)
    assert refuted(lambda: not some_act(flags := any_flags(focus)) or some(flags, is_both))


def test_that_no_other_can_act_is_known_without_others() -> None:
    def claim(most: int) -> bool:
        flags = any_flags()
        assume(flags.size() <= most)
        return bool(flags.some_name(lambda name: flags.get(name).waits) == in_focus(flags)[0].waits)

    assert proved(partial(claim, 1))
    assert refuted(partial(claim, 2))


# Channels that share a pool.


def first_changed(change: Callable[[Channel, State], Channel]) -> Fault[State, Parameters]:
    def fault(state: State, _parameters: Parameters) -> State:
        return state._replace(channels=state.channels.put(0, change(state.channels.get(0), state)))

    return fault


def push_late(channel: Channel, state: State) -> Channel:
    return channel._replace(wire=channel.wire.push(Message("data", 1, state.epoch + 1)))


FAULTS: dict[str, tuple[Fault[State, Parameters], str]] = {
    "TypeOK": (first_changed(lambda channel, _: channel._replace(borrowed=-1)), "a permit is owed"),
    "Ends": (first_changed(lambda channel, _: channel._replace(blocked=True, ended=False)), "blocked for no reason"),
    "Conservation": (lambda state, _: state._replace(pool=state.pool + 1), "a permit is made"),
    "InEpoch": (first_changed(push_late), "a message of the next epoch is sent"),
}


def theorem(*obligations: Obligation) -> Theorem:
    return Theorem(id="pool", statement="", module="SharedPool", operator="Init", obligations=obligations)


@pytest.mark.parametrize("clause", INVARIANT)
def test_a_clause_is_kept_by_any_number_of_channels(clause: str) -> None:
    """Both solvers say so, of each action and its twin."""
    verdict = prove(theorem(*subject().induction(INVARIANT[clause], *FAULTS[clause])), "both")
    assert verdict.problems() == []
    assert [opinion.outcome for opinion in verdict.opinions] == ["proved", "proved"]
    assert verdict.twins_refuted == 1 + len(SYSTEM.actions)


def test_the_laws_of_the_channels_queues_are_laws() -> None:
    def lawful_message() -> Message:
        parameters, message = any_parameters(), any_message("message")
        assume(is_message(message, parameters))
        return message

    for name, law in (("permits held", permits_held), ("each message counts once", order_kept)):
        verdict = prove(theorem(*law_obligations(name, law, lawful_message)))
        assert verdict.problems() == []


def keep_what_was_borrowed(state: State, _parameters: Parameters, name: int) -> State:
    channel = state.channels.get(name)
    require(channel.wanted > 0 and channel.borrowed == channel.wanted)
    wire = channel.wire.push(Message("data", channel.wanted, state.epoch))
    return state._replace(channels=state.channels.put(name, channel._replace(wanted=0, wire=wire)))


def is_open(channel: Channel) -> bool:
    return not channel.blocked


def align_by_one(state: State, _parameters: Parameters) -> State:
    require(not state.channels.every(is_open))
    return state._replace(channels=state.channels.map(opened_again), epoch=(state.epoch + 1) % 2)


def one_more(channel: Channel) -> Channel:
    return opened_again(channel)._replace(borrowed=channel.borrowed + 1)


def align_with_gifts(state: State, _parameters: Parameters) -> State:
    require(state.channels.every(is_blocked))
    return state._replace(channels=state.channels.map(one_more), epoch=(state.epoch + 1) % 2)


def without_loan(channel: Channel) -> Channel:
    return opened_again(channel)._replace(borrowed=0)


def align_and_forget_loans(state: State, _parameters: Parameters) -> State:
    """No mistake: a channel that is blocked has borrowed nothing."""
    require(state.channels.every(is_blocked))
    return state._replace(channels=state.channels.map(without_loan), epoch=(state.epoch + 1) % 2)


@pytest.mark.parametrize(
    ("action", "perform", "broken"),
    [
        ("Send", keep_what_was_borrowed, {"TypeOK", "Conservation"}),
        ("Align", align_by_one, {"Ends", "InEpoch"}),
        ("Align", align_with_gifts, {"TypeOK", "Conservation"}),
        ("Align", align_and_forget_loans, set()),
    ],
)
def test_a_mistake_breaks_the_clauses_that_speak_of_it(
    action: str, perform: Callable[..., State], broken: set[str]
) -> None:
    actions = tuple(replace(each, perform=perform) if each.name == action else each for each in SYSTEM.actions)
    wrong = subject(replace(SYSTEM, actions=actions))

    def outcome(clause: Clause[State, Parameters]) -> str:
        relation = partial(_after, clause)
        (obligation,) = wrong.step_obligations([action], relation, relation, "")
        return decide(obligation.claim).outcome

    assert {name for name, clause in INVARIANT.items() if outcome(clause) == "refuted"} == broken


def borrow_by_the_second(state: State, _parameters: Parameters, name: int) -> State:
    require(name == 1)
    return state._replace(pool=state.pool - 1)


def lend_to_the_first(state: State, _parameters: Parameters, name: int) -> State:
    channels = state.channels
    channels = channels.put(name, channels.get(name)._replace(borrowed=0))
    return state._replace(channels=channels.put(0, channels.get(0)._replace(borrowed=channels.get(name).borrowed)))


def borrow_more_by_some(state: State, _parameters: Parameters, name: int) -> State:
    return state._replace(pool=state.pool - (2 if name in {1, 2} else 1))


def borrow_by_number(state: State, _parameters: Parameters, name: int) -> State:
    return state._replace(pool=state.pool - name)


@pytest.mark.parametrize("perform", [borrow_by_the_second, lend_to_the_first, borrow_more_by_some, borrow_by_number])
def test_a_step_that_tells_members_apart_by_name_is_refused(perform: Callable[..., State]) -> None:
    """The member that acts is any: what it does as the first, or the second, would be proved of all."""
    actions = tuple(replace(each, perform=perform) if each.name == "Borrow" else each for each in SYSTEM.actions)
    wrong = subject(replace(SYSTEM, actions=actions))
    with pytest.raises(TypeError, match=r"a step (compares the name|names the member 0, but another)"):
        decide(lambda: wrong.any_step("Borrow")[1].epoch >= 0)


def lower_by_each(state: State, _parameters: Parameters) -> State:
    return state._replace(pool=state.pool - sum(1 for _ in state.channels.names()))


def test_a_step_that_lists_the_members_is_refused() -> None:
    """It would be a step of those in focus, and lower the pool by one however many there are."""
    actions = tuple(replace(each, perform=lower_by_each) if each.name == "Align" else each for each in SYSTEM.actions)
    wrong = subject(replace(SYSTEM, actions=actions))
    with pytest.raises(TypeError, match="nobody lists the members"):
        decide(lambda: wrong.any_step("Align")[1].pool >= 0)


def first_has_borrowed(state: State, _parameters: Parameters) -> bool:
    return state.channels.get(0).borrowed >= 0


def all_but_the_first_have_borrowed_less(state: State, _parameters: Parameters) -> bool:
    channels = state.channels
    return each_in_focus(lambda name: name == 0 or channels.get(name).borrowed < channels.get(0).borrowed, channels)


def kept_by(action: str, clause: Clause[State, Parameters]) -> Callable[[], bool]:
    """The claim, with two in focus."""
    claims = replace(subject(), any_state=partial(any_state, focus=2)).induction(clause, lambda state, _: state, "")
    return next(each.claim for each in claims if each.name == f"kept by {action}")


@pytest.mark.parametrize("clause", [first_has_borrowed, all_but_the_first_have_borrowed_less])
def test_a_clause_after_a_step_looks_up_no_member(clause: Clause[State, Parameters]) -> None:
    """Of the one that acts it may hold after each step, and still not of another one."""
    with pytest.raises(TypeError, match="a clause looks up the member 0 after a step"):
        decide(kept_by("Borrow", clause))


def test_a_clause_after_a_step_of_all_looks_up_any_member() -> None:
    assert proved(kept_by("Align", first_has_borrowed))


def _after(clause: Clause[State, Parameters], _before: State, after: State, parameters: Parameters) -> bool:
    return clause(after, parameters)


def live(short: int, *, look_for_one: bool = True) -> bool:
    """With more permits than all channels may hold while they wait, less so many."""
    parameters = any_parameters()
    state = any_state(parameters)
    assume(parameters.permits > state.channels.sum_of(at_most_held, parameters) - short)
    return never_stuck(with_the_one_that_moves(state) if look_for_one else state, parameters)


def test_enough_permits_for_all_channels_leave_none_stuck() -> None:
    assert proved(partial(live, 0))
    assert refuted(partial(live, 1)), "one permit less"


def test_the_waiting_channel_need_not_be_the_moving_one() -> None:
    assert refuted(partial(live, 0, look_for_one=False))


def test_two_channels_are_stuck_whatever_their_number() -> None:
    def stuck(permits: int) -> bool:
        parameters = any_parameters(permits=permits)
        assume(parameters.channels >= 2)
        assume(parameters.largest >= 2)
        moves = [("Offer", (0, 2)), ("Offer", (1, 2)), ("Borrow", (0,)), ("Borrow", (1,))]
        end = take(SYSTEM, parameters, SYSTEM.initial(parameters), moves)
        return end is not None and not never_stuck(end, parameters)

    assert proved(partial(stuck, 2))
    assert refuted(partial(stuck, 3))


def test_a_counterexample_shows_who_is_in_focus_and_not_the_others() -> None:
    found = decide(partial(live, 1)).counterexample
    assert found is not None
    assert "channels.0.wanted=2" in str(found)
    assert any(".others." in name for name in found.values)
    assert ".others." not in str(found)
