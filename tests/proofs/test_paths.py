"""Exploring a function visits every feasible path, no other, and says under which conditions."""

from functools import cache

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow_model.kernel.system import require
from permitflow_proofs.kernel.merging import GuardOfOneCase
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.paths import Beginning, Explorer, Path, current_explorer
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.symbols import assume, assuming, integer, integer_term, merged, natural, truth
from permitflow_proofs.kernel.trail import Endless


def is_impossible(*terms: z3.BoolRef) -> bool:
    solver = z3.Solver()
    solver.add(*terms)
    return bool(solver.check() == z3.unsat)


def test_a_comparison_forks() -> None:
    paths = list(Explorer().paths(lambda: "small" if integer("x") < 5 else "large"))
    assert [path.result for path in paths] == ["small", "large"]
    assert [int(path.values()["x"]) < 5 for path in paths] == [True, False]


def test_both_sides_of_every_fork_are_visited() -> None:
    def grade() -> int:
        x = integer("x")
        return sum(1 for limit in (1, 2, 3) if x >= limit)

    paths = list(Explorer().paths(grade))
    assert sorted(path.result or 0 for path in paths) == [0, 1, 2, 3]
    for one in paths:
        for other in paths:
            both = is_impossible(*one.conditions, *other.conditions)
            assert both is (one is not other)


def test_a_side_that_cannot_be_taken_is_pruned_and_kept_as_impossible() -> None:
    def nested() -> str:
        x = integer("x")
        if x > 5:
            return "yes" if x > 3 else "never"
        return "no"

    explorer = Explorer()
    assert [path.result for path in explorer.paths(nested)] == ["yes", "no"]
    assert len(explorer.pruned) == 1
    assert all(is_impossible(*conditions) for conditions in explorer.pruned)


def tangle(a: int, b: int, c: int) -> int:
    if a + 2 * b < c:
        return min(a, b) - c
    if a % 3 == 0 or not b > c:
        return max(a // 3, b) * 3
    return -a


@cache
def paths_through_the_tangle() -> list[Path[int]]:
    return list(Explorer().paths(lambda: tangle(integer("x"), integer("y"), natural("z", 1))))


@settings(max_examples=40)
@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(1, 9))
def test_numbers_take_exactly_one_path_and_get_its_result(x: int, y: int, z: int) -> None:
    point = [z3.Int("x") == x, z3.Int("y") == y, z3.Int("z") == z]
    (path,) = [path for path in paths_through_the_tangle() if not is_impossible(*path.conditions, *point)]
    result = integer_term(path.result)
    assert is_impossible(*path.conditions, *point, result != tangle(x, y, z))


def test_an_assumption_cuts_paths_off() -> None:
    def assumed() -> bool:
        x = integer("x")
        assume(x > 3)
        return x > 2

    found = decide(assumed)
    assert (found.outcome, found.reached) == ("proved", 1)


def test_premises_that_cannot_be_met_prove_everything_and_say_nothing() -> None:
    def vacuous() -> bool:
        x = integer("x")
        assume(x > 3)
        assume(x < 3)
        return x == 42

    found = decide(vacuous)
    assert (found.outcome, found.reached) == ("proved", 0)


def test_an_action_that_is_never_enabled_is_vacuous_too() -> None:
    def never() -> bool:
        x = natural("x")
        require(x < 0)
        return False

    found = decide(never)
    assert (found.outcome, found.reached) == ("proved", 0)


def test_a_refusal_while_assuming_cuts_the_path_off() -> None:
    def refuse(x: int) -> int:
        if x < 1:
            raise ValueError(x)
        return x

    def claim() -> bool:
        with assuming(ValueError):
            x = refuse(integer("x"))
        return x >= 1

    assert decide(claim).outcome == "proved"
    with pytest.raises(ValueError, match=r"Integer\(x\)"):
        decide(lambda: refuse(integer("x")) >= 1)


def test_an_exception_on_a_possible_path_comes_out() -> None:
    def stumble() -> bool:
        if integer("x") == 7:
            raise IndexError("seven")
        return True

    with pytest.raises(IndexError, match="seven"):
        decide(stumble)


def test_a_counterexample_gives_the_values() -> None:
    def claim() -> bool:
        x, is_odd = natural("x"), truth("is_odd")
        return is_odd or x != 12

    found = decide(claim)
    assert found.outcome == "refuted"
    assert found.counterexample is not None
    assert dict(found.counterexample.values) == {"x": 12, "is_odd": False}


def test_an_endless_loop_over_a_symbol_is_stopped() -> None:
    def count_up() -> int:
        x, n = natural("x"), 0
        while n < x:
            n += 1
        return n

    with pytest.raises(Endless, match="more than 30 forks on one path"):
        list(Explorer(max_forks=30).paths(count_up))


def test_too_many_paths_are_stopped() -> None:
    def grade() -> int:
        x = integer("x")
        return sum(1 for limit in range(20) if x >= limit)

    assert len(list(Explorer(max_paths=21).paths(grade))) == 21
    with pytest.raises(Endless, match="more than 20 paths"):
        list(Explorer(max_paths=20).paths(grade))


def test_a_merged_condition_does_not_fork() -> None:
    def between(x: int) -> bool:
        return x > 3 and (x < 6 or x == 10)

    def claim() -> bool:
        x = integer("x")
        assume(merged(lambda: between(x)))
        assume(x > 5)
        return x == 10

    found = decide(claim)
    assert (found.outcome, found.reached) == ("proved", 1)
    assert decide(lambda: merged(lambda: between(integer("x")))).outcome == "refuted"


@given(st.integers(-3, 12), st.booleans())
def test_a_merged_condition_is_true_where_the_function_is(x: int, flag: bool) -> None:
    def function(number: int, switch: bool) -> bool:
        if switch:
            return min(number, 4) == max(number, 4) - 2
        return number % 3 == 1 or (number > 7 and number != 9)

    def claim() -> bool:
        number, switch = integer("number"), truth("switch")
        condition = merged(lambda: number >= -3 and function(number, switch))
        assume(number == x)
        assume(switch == flag)
        return condition == function(x, flag)

    found = decide(claim)
    assert (found.outcome, found.reached) == ("proved", 1)


def test_an_assumption_in_a_merged_function_holds_in_its_case_only() -> None:
    def assumed_if_positive() -> tuple[int, int]:
        x, y = integer("x"), integer("y")

        def condition() -> bool:
            if x > 0:
                assume(y == 1)
            return True

        assume(merged(condition))
        return x, y

    def in_its_case() -> bool:
        x, y = assumed_if_positive()
        return x <= 0 or y == 1

    def everywhere() -> bool:
        _, y = assumed_if_positive()
        return y == 1

    assert decide(in_its_case).outcome == "proved"
    assert decide(everywhere).outcome == "refuted"


def test_merging_bears_impossible_answers_but_no_possible_error() -> None:
    def word(x: int) -> str | None:
        return "low" if x < 0 else "high" if x >= 0 else None

    def long_word(x: int) -> bool:
        found = word(x)
        assert found is not None
        return len(found) == 4

    def claim() -> bool:
        x = integer("x")
        return merged(lambda: long_word(x)) == (x >= 0)

    assert decide(claim).outcome == "proved"

    def stumble(x: int) -> bool:
        if x == 3:
            raise IndexError("three")
        return True

    with pytest.raises(IndexError, match="three"):
        decide(lambda: merged(lambda: stumble(integer("x"))))


def test_what_is_assumed_where_nobody_asks_is_not_assumed() -> None:
    def claim() -> bool:
        x = integer("x")

        def is_large() -> bool:
            assume(x > 5)
            return True

        merged(is_large, where=x > 3)
        return x > 3

    assert decide(claim).outcome == "refuted"


def test_a_guard_that_forks_in_a_merge_is_refused() -> None:
    def above_five(x: int) -> bool:
        require(x > 0)
        return x > 5

    def partly_merged() -> bool:
        return merged(lambda: above_five(integer("x"))) if truth("flag") else True

    with pytest.raises(GuardOfOneCase, match="before it is performed"):
        decide(partly_merged)


def test_an_assumption_in_an_inner_merge_holds_in_the_cases_of_both() -> None:
    def assumed_if_both() -> tuple[int, int, int]:
        x, y, z = integer("x"), integer("y"), integer("z")

        def inner() -> bool:
            if y > 0:
                assume(z == 1)
            return y > 0 or y < 5

        def outer() -> bool:
            return merged(inner) if x > 0 else True

        assume(merged(outer))
        # The path is walked again from here.
        assert (x > 7) or x <= 7
        return x, y, z

    def in_these_cases() -> bool:
        x, y, z = assumed_if_both()
        return x <= 0 or y <= 0 or z == 1

    def in_one_of_them(number: int) -> bool:
        numbers = assumed_if_both()
        return numbers[number] <= 0 or numbers[2] == 1

    assert decide(in_these_cases).outcome == "proved"
    for number in (0, 1):
        assert decide(lambda number=number: in_one_of_them(number)).outcome == "refuted"  # type: ignore[misc]


def test_an_error_in_an_inner_merge_must_be_impossible_in_its_case() -> None:
    def unless_three(x: int) -> bool:
        if x == 3:
            raise IndexError("three")
        return True

    def claim(bound: int) -> bool:
        x = integer("x")
        assume(merged(lambda: x < bound and merged(lambda: unless_three(x))))
        return bool(x < bound) and bool(x < 9 or x > 9)

    assert decide(lambda: claim(3)).outcome == "proved"
    with pytest.raises(IndexError, match="three"):
        decide(lambda: claim(4))


def test_symbols_live_inside_an_exploration_only() -> None:
    with pytest.raises(RuntimeError, match="inside a function that an Explorer runs"):
        current_explorer()


# A beginning that is explored once.


def test_a_beginning_is_walked_for_the_first_function_only() -> None:
    walks = []

    def begin() -> int:
        walks.append(1)
        x = natural("x")
        return x if x < 5 else 10 + x

    beginning = Beginning(begin)

    def outcomes(limit: int) -> list[Path[bool]]:
        return list(Explorer().paths(lambda: beginning() + integer("x") < limit))

    assert [path.result is not None for path in outcomes(7)] == [True, True]
    count = len(walks)
    for limit in (0, 3):
        for path, is_small in zip(outcomes(limit), (True, False), strict=True):
            assert is_impossible(*path.conditions, z3.Int("x") >= 5 if is_small else z3.Int("x") < 5)
            # The function's own symbol has a name of its own.
            assert set(path.values()) == {"x", "x!2"}
    assert len(walks) == count


def test_an_impossible_beginning_stays_in_the_condition() -> None:
    def begin() -> int:
        x = natural("x", 3)
        return x if x > 1 else 0

    beginning = Beginning(begin)
    for _ in range(2):
        explorer = Explorer()
        assert [path.enabled for path in explorer.paths(lambda: beginning() > 4)] == [True]
        assert len(explorer.pruned) == 1
        assert all(is_impossible(*conditions) for conditions in explorer.pruned)


def test_what_one_path_has_learnt_of_a_beginning_no_other_path_knows() -> None:
    """The first item is made, and assumed to be there, where it is asked for: each path asks anew."""
    beginning = Beginning(lambda: SymbolicQueue.any_queue("items", integer))

    def asks() -> int:
        items = beginning()
        return items.head() if truth("asks") and not items.is_empty() else 0

    for _ in range(2):
        asked = ["items.head" in path.readers for path in Explorer().paths(asks)]
        assert sorted(asked) == [False, False, True]


def test_what_holds_on_one_way_of_a_beginning_holds_on_no_other() -> None:
    def begin() -> tuple[int, bool]:
        x = integer("x")
        return x, bool(x < 5)

    beginning = Beginning(begin)
    for claim in (lambda: beginning()[0] < 7, lambda: beginning()[1]):
        found = decide(claim).counterexample
        assert found is not None
        assert int(found.values["x"]) >= 5


def test_a_beginning_that_comes_later_or_twice_is_made_in_place() -> None:
    beginning = Beginning(lambda: integer("x"))

    def differ() -> bool:
        first, second = beginning(), beginning()
        return first == second

    assert decide(differ).outcome == "refuted"
    assert decide(lambda: integer("y") == beginning()).outcome == "refuted"


def test_a_beginning_without_a_way_makes_a_claim_say_nothing() -> None:
    def begin() -> None:
        assume(natural("x") < 0)

    beginning = Beginning(begin)
    assert decide(lambda: beginning() is None).reached == 0


def test_what_is_known_on_one_way_of_a_beginning_is_asked_on_another() -> None:
    def begin() -> int:
        x, y = integer("x"), integer("y")
        if x < 0:
            assume(y < 0)
        return y

    beginning = Beginning(begin)
    assert decide(lambda: beginning() < 0).outcome == "refuted"


def test_a_merge_behind_a_fork_is_evaluated_on_each_path() -> None:
    def bounded() -> bool:
        x = integer("x")
        bound = 5 if x > 0 else -5
        assume(merged(lambda: x < bound or x == bound))
        return x <= bound

    assert decide(bounded).outcome == "proved"
