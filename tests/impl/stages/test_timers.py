"""When an island calls the timers of its stages: without a loop, at times that the test states."""

from collections.abc import Callable

from permitflow.stages.core.ports import Island, Stage

Rings = Callable[["Alarm"], None]


class Alarm(Stage[object, object]):
    """Writes down that it was called, and does what it is told."""

    def __init__(
        self, island: Island, rung: list[str], name: str, seconds: float, then: Rings = lambda _: None
    ) -> None:
        super().__init__()
        self.island, self.rung, self.name, self.then = island, rung, name, then
        island.set_timer(self, seconds)

    def on_timer(self) -> None:
        self.rung.append(self.name)
        self.then(self)


def test_timers_that_are_due_are_called_the_earliest_first() -> None:
    island, rung = Island(), list[str]()
    for name, seconds in (("late", 3.0), ("early", 1.0), ("not yet", 9.0)):
        Alarm(island, rung, name, seconds)
    assert island.deadline == 1.0
    island.on_time(3.0)
    assert (rung, island.deadline) == (["early", "late"], 9.0)


def test_a_timer_that_is_set_again_is_called_at_the_new_time() -> None:
    island, rung = Island(), list[str]()
    again = Alarm(island, rung, "again", 1.0, lambda alarm: alarm.island.set_timer(alarm, 4.0))
    island.set_timer(again, 2.0)
    island.on_time(1.5)
    assert (rung, island.deadline) == ([], 2.0)
    island.on_time(2.5)
    assert (rung, island.deadline) == (["again"], 6.5)


def test_a_timer_that_an_earlier_one_forgets_is_not_called() -> None:
    island, rung = Island(), list[str]()
    late = Alarm(island, rung, "late", 2.0)
    Alarm(island, rung, "early", 1.0, lambda _: island.forget_timer(late))
    island.on_time(5.0)
    assert (rung, island.deadline) == (["early"], None)


def test_a_timer_that_raises_fails_its_stage_and_no_other() -> None:
    island, rung = Island(), list[str]()

    def fails(_alarm: Alarm) -> None:
        raise ValueError

    failing = Alarm(island, rung, "failing", 1.0, fails)
    Alarm(island, rung, "late", 2.0)
    following = Alarm(island, rung, "never", 9.0)
    connection = island.connect(failing, following)
    island.on_time(5.0)
    assert (rung, type(connection.failure)) == (["failing", "late"], ValueError)


def test_a_stage_that_is_over_is_called_no_more() -> None:
    island, rung = Island(), list[str]()
    Alarm(island, rung, "complete", 1.0).complete_stage()
    Alarm(island, rung, "failed", 1.0).fail_stage(ValueError())
    assert island.deadline is None
