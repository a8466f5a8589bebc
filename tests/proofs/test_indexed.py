"""Members by symbolic names: what is known of all of them, and of one that changes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from permitflow_model.kernel.family import NoMemberError
from permitflow_model.kernel.queue import larger
from permitflow_model.kernel.system import Action, System, require
from permitflow_proofs import hash_dispatch, mute, mute_links, mute_scheduler, staging
from permitflow_proofs.kernel.frame import Frame, has_guard, is_same_part
from permitflow_proofs.kernel.indexed import Indexed, member_by_name
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.symbols import all_of, assume, implies, integer, merged, natural, negated


class Bin(NamedTuple):
    items: int
    is_open: bool


class Words(NamedTuple):
    text: str


def any_bins() -> tuple[Indexed[Bin], int, int]:
    """Any number of bins, and two names."""
    size, one, other = natural("size", 1), integer("one"), integer("other")
    for name in (one, other):
        assume(all_of((name >= 0, name < size)))
    return Indexed.any_family(member_by_name(Bin, "bin."), size, one, other), one, other


def has_some(bin_: Bin) -> bool:
    return bin_.items > 0


def emptied(bin_: Bin) -> Bin:
    return bin_._replace(items=0)


def filled(name: int, bin_: Bin, chosen: int) -> Bin:
    return bin_._replace(items=1) if name == chosen else bin_


def told_of_each() -> bool:
    bins, one, _ = any_bins()
    return implies(bins.every(has_some), bins.get(one).items > 0)


def kept_for_all() -> bool:
    bins, one, _ = any_bins()
    assume(bins.every(has_some))
    return bins.put(one, Bin(1, True)).every(has_some)


def last_behind_which_all_hold() -> bool:
    bins, one, _ = any_bins()
    last = bins.last_without(has_some)
    assume(last.exists)
    return implies(one > last.name, bins.get(one).items > 0)


def others_stay() -> bool:
    bins, one, other = any_bins()
    return implies(other != one, bins.put(one, Bin(0, False)).get(other).items == bins.get(other).items)


def by_name_only_one() -> bool:
    bins, one, other = any_bins()
    return implies(other != one, bins.map_by_name(filled, one).get(other).items == bins.get(other).items)


def all_are_changed() -> bool:
    bins, one, _ = any_bins()
    return bins.map(emptied).get(one).items == 0


def items_of(bin_: Bin) -> int:
    return bin_.items


def items_by_name(_name: int, bin_: Bin) -> int:
    return bin_.items


def a_sum_differs_by_what_was_put() -> bool:
    bins, one, _ = any_bins()
    return bins.put(one, Bin(5, True)).sum_of(items_of) == bins.sum_of(items_of) + 5 - bins.get(one).items


def a_sum_by_name_is_at_least_a_measure_where_none_is_negative() -> bool:
    bins, one, _ = any_bins()
    assume(bins.every(has_some))
    bins.put(one, Bin(0, True)).sum_by_name(items_by_name)
    return bins.sum_by_name(items_by_name) >= bins.get(one).items


def the_largest_is_at_least_each_and_one_has_it() -> bool:
    bins, one, _ = any_bins()
    largest = bins.largest_by_name(items_by_name)
    nobody = bins.every_by_name(lambda _name, bin_: bin_.items < largest)
    return all_of((bins.get(one).items <= largest, negated(nobody)))


def of_listed_items_the_largest_is_known() -> bool:
    bins, one, _ = any_bins()
    listed = bins.listed_by_name(lambda name, bin_: bin_.items if name == one and bin_.items > 0 else None)
    return listed.sum_of(lambda items: items, larger, 0) == larger(bins.get(one).items, 0)


def what_holds_of_a_member_holds_of_its_item() -> bool:
    bins, _, _ = any_bins()
    listed = bins.listed_by_name(lambda _name, bin_: bin_.items if bin_.items > 0 else None)
    return listed.every(lambda items, least: items > least, 0)


def both(left: int, right: int) -> int:
    return left + right


def all_items(items: int) -> int:
    return items


def what_one_measures_alone(*, pushed: int) -> bool:
    bins, one, _ = any_bins()
    bins.measure_alone(all_items, lambda: one)
    listed = bins.listed_by_name(items_by_name).push(5).push(2)
    return listed.sum_of(all_items, both, 0) == bins.get(one).items + pushed


def a_measure_alone_is_the_sum_with_what_was_pushed() -> bool:
    return what_one_measures_alone(pushed=7)


def what_was_pushed_is_one_more() -> bool:
    return what_one_measures_alone(pushed=8)


def one_that_is_not_there_measures_alone() -> bool:
    bins, _, _ = any_bins()
    bins.measure_alone(all_items, bins.size)
    return bins.listed_by_name(items_by_name).sum_of(all_items, both, 0) == bins.get(bins.size()).items


def what_holds_for_all_holds_beside_them() -> bool:
    bins, _, _ = any_bins()
    assume(bins.every(has_some))
    bins.know(bins.size())
    return has_some(bins.get(bins.size()))


def has_least(_name: int, bin_: Bin, least: int) -> bool:
    return bin_.items >= least


def holds_for_one_number_as_for_another() -> bool:
    bins, few, many = any_bins()
    return implies(bins.every_by_name(has_least, few), bins.every_by_name(has_least, many))


def more_items(bin_: Bin, more: int) -> int:
    return bin_.items + more


def adds_up_with_one_number_as_with_another() -> bool:
    bins, few, many = any_bins()
    return bins.sum_of(more_items, few) == bins.sum_of(more_items, many)


def what_was_pushed_holds_nothing() -> bool:
    bins, _, _ = any_bins()
    listed = bins.listed_by_name(lambda _name, bin_: bin_.items if bin_.items > 0 else None).push(0)
    return listed.every(lambda items, least: items > least, 0)


@pytest.mark.parametrize(
    "claim",
    [
        a_measure_alone_is_the_sum_with_what_was_pushed,
        *(told_of_each, kept_for_all, last_behind_which_all_hold, others_stay, by_name_only_one, all_are_changed),
        *(a_sum_differs_by_what_was_put, a_sum_by_name_is_at_least_a_measure_where_none_is_negative),
        the_largest_is_at_least_each_and_one_has_it,
        *(of_listed_items_the_largest_is_known, what_holds_of_a_member_holds_of_its_item),
    ],
)
def test_what_holds_of_every_family_is_proved(claim: Callable[[], bool]) -> None:
    found = decide(claim)
    assert found.outcome == "proved"
    assert found.reached > 0


def each_told_of_all() -> bool:
    bins, one, other = any_bins()
    return implies(all_of((bins.get(one).items > 0, bins.get(other).items > 0)), bins.every(has_some))


def lost_by_a_change() -> bool:
    bins, one, _ = any_bins()
    assume(bins.every(has_some))
    return bins.put(one, Bin(0, True)).every(has_some)


def a_change_is_seen_by_its_own_name_only() -> bool:
    bins, one, other = any_bins()
    return bins.put(one, Bin(0, False)).get(other).items == bins.get(other).items


def a_sum_is_known() -> bool:
    bins, _, _ = any_bins()
    return bins.sum_of(has_some) >= 0


def a_sum_by_name_is_never_negative() -> bool:
    bins, _, _ = any_bins()
    return bins.sum_by_name(items_by_name) >= 0


def each_is_the_largest() -> bool:
    bins, one, _ = any_bins()
    return bins.get(one).items == bins.largest_by_name(items_by_name)


@pytest.mark.parametrize(
    "claim",
    [
        *(each_told_of_all, lost_by_a_change, a_change_is_seen_by_its_own_name_only, a_sum_is_known),
        *(a_sum_by_name_is_never_negative, each_is_the_largest),
        *(what_was_pushed_is_one_more, what_was_pushed_holds_nothing, one_that_is_not_there_measures_alone),
        *(what_holds_for_all_holds_beside_them, holds_for_one_number_as_for_another),
        adds_up_with_one_number_as_with_another,
    ],
)
def test_what_does_not_hold_of_every_family_is_refuted(claim: Callable[[], bool]) -> None:
    assert decide(claim).outcome == "refuted"


def put_behind_the_last() -> bool:
    bins, _, _ = any_bins()
    return bins.put(bins.size(), Bin(5, False)).every(has_some) == bins.every(has_some)


def put_at_any_number() -> bool:
    bins, _, _ = any_bins()
    return merged(lambda: has_some(bins.put(integer("any"), Bin(5, False)).get(0)))


@pytest.mark.parametrize("claim", [put_behind_the_last, put_at_any_number])
def test_a_member_that_is_not_there_cannot_be_replaced(claim: Callable[[], bool]) -> None:
    with pytest.raises(NoMemberError):
        decide(claim)


def test_two_families_are_not_the_same() -> None:
    def claim() -> bool:
        (one, name, _), (other, _, _) = any_bins(), any_bins()
        return one.get(name).items == other.get(name).items

    assert decide(claim).outcome == "refuted"


def test_a_step_looks_only_at_members_that_are_there() -> None:
    def looks_at(beyond: int) -> bool:
        bins, one, _ = any_bins()
        assume(all_of((one >= 0, one < bins.size())))
        with current_explorer().acting():
            return bins.get(one + beyond).items == bins.get(one + beyond).items

    assert decide(lambda: looks_at(0)).outcome == "proved"
    with pytest.raises(NoMemberError):
        decide(lambda: looks_at(1))


def look_at(bins: Indexed[Bin], _parameters: None, name: int) -> Indexed[Bin]:
    require(bins.get(name).is_open)
    return bins


def test_a_guard_looks_only_at_members_that_are_there() -> None:
    look: Action[Indexed[Bin], None] = Action("look", look_at)
    looking = System("Bins", initial=lambda _: any_bins()[0], actions=(look,), invariants={})
    frame: Frame[Indexed[Bin], None] = Frame("look", when=lambda bins, _, name: bins.get(name).is_open)

    def guarded(beyond: int) -> bool:
        bins, one, _ = any_bins()
        subject = Subject(looking, lambda: None, lambda _: bins, {"look": lambda _: (one + beyond,)})
        return has_guard(subject, frame)

    assert decide(lambda: guarded(0)).outcome == "proved"
    with pytest.raises(NoMemberError):
        decide(lambda: guarded(1))


def test_what_is_known_of_every_member_is_asked_of_members_only() -> None:
    def still_open() -> bool:
        bins, one, _ = any_bins()
        bins.know(bins.size())
        bins.assume_every(lambda name: bins.put(name, Bin(0, bins.get(name).is_open)).get(name).is_open)
        return bins.get(one).is_open

    assert decide(still_open).outcome == "proved"


def test_only_the_largest_is_known_of_listed_items() -> None:
    def adds_up() -> bool:
        bins, _, _ = any_bins()
        items = bins.listed_by_name(items_by_name)
        return items.sum_of(lambda item: item, lambda left, right: left + right, 0) == 0

    with pytest.raises(TypeError, match="only the largest"):
        decide(adds_up)


def test_names_cannot_be_listed_and_members_are_numbers() -> None:
    def lists() -> bool:
        bins, _, _ = any_bins()
        return any(bins.names())

    with pytest.raises(TypeError, match="ask for every member"):
        decide(lists)
    with pytest.raises(TypeError, match="ask for every member"):
        decide(lambda: any_bins()[0].some_name(lambda name: name > 0))
    with pytest.raises(TypeError, match="text is neither a number, nor a truth value or a word"):
        decide(lambda: Indexed.any_family(member_by_name(Words), 1).size() == 1)


def test_a_frame_tells_apart_what_is_in_focus_and_any_other_member() -> None:
    def parts() -> bool:
        one, size = natural("one"), natural("size", 1)
        assume(one < size)
        bins = Indexed.any_family(member_by_name(Bin, "bin."), size, focus={"0": one})
        emptied_one = bins.put(one, Bin(0, False))
        words = [word for word, _ in bins.parts()]
        (_, after), (_, other_after) = emptied_one.parts()
        (_, other_before) = bins.parts()[1]
        return words == ["0", "others"] and all_of((after.items == 0, other_after.items == other_before.items))

    assert decide(parts).outcome == "proved"

    def none_in_focus() -> bool:
        bins, _, _ = any_bins()
        return bool(bins.parts())

    with pytest.raises(TypeError, match="no member is in focus"):
        decide(none_in_focus)


@pytest.mark.parametrize(
    ("subject", "part"),
    [
        (mute.ANY, lambda state: state.heard.get(0).get(0)),
        (mute.ANY, lambda state: state.sources.get(0).left),
        (mute_links.SUBJECT, lambda state: state.noted.get(0).get(0)),
        (mute_scheduler.ANY, lambda state: state.waits.get(0).get(1)),
        (staging.ANY, lambda state: state.published.get(0)),
        (hash_dispatch.ANY, lambda state: state.owners.get(0)),
    ],
    ids=["heard", "left", "noted", "waits", "published", "owners"],
)
def test_two_states_of_one_claim_may_differ(subject: Subject[Any, Any], part: Callable[[Any], object]) -> None:
    def are_the_same() -> bool:
        parameters = subject.any_parameters()
        return is_same_part(*(part(subject.any_state(parameters)) for _ in range(2)))

    assert decide(are_the_same).outcome == "refuted"
