"""The model leads a conflating stage through its state graph: it gives the same sums, at the same moments.

So does a stage with a bound, to a consumer that asks until nothing is left.
"""

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from functools import partial, reduce

import pytest

from permitflow.stages import Connection, Stage
from permitflow.stages.core.ports import EMPTY, Island
from permitflow.stages.core.rates import Batch
from permitflow_model.conflate import NOTHING, SYSTEM, Parameters, State, Summary, together
from permitflow_testing import ActionRefused, Divergence
from permitflow_testing.moves import walk
from tests.support.replayed import Replayed

PARAMETERS = Parameters(elements=4, largest=2)
ROOM_FOR_ALL = PARAMETERS.elements * PARAMETERS.largest


class Producer(Stage[int, int]):
    """Pushes what it is told to push, as soon as the stage asks; then it ends, if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead: deque[int] = deque()
        self.is_over = False

    def on_pull(self, outlet: Connection[int]) -> None:
        self.go_on()

    def go_on(self) -> None:
        if self.ahead and self.outlet.is_asked:
            self.outlet.push(self.ahead.popleft())
        if self.is_over and not self.ahead:
            self.outlet.complete()


class Consumer(Stage[Summary, Summary]):
    """Notes what it is given, all in all and since it was last told to ask: each batch has what there is room for."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self.given = NOTHING
        self.batches: list[Summary] = []

    def on_push(self, inlet: Connection[Summary]) -> None:
        batch = inlet.grab()
        assert batch.total <= self._room or batch.number == 1
        assert not self.batches or self.batches[-1].total + batch.total > self._room
        self.batches.append(batch)
        self.given = together(self.given, batch)


def one(size: int) -> Summary:
    return Summary(1, size, size)


def with_one(so_far: Summary, size: int) -> Summary:
    return together(so_far, one(size))


class Chain:
    """A producer, the stage and a consumer; after each call all events are run.

    The stage ends in the same turn in which it can.  The model's consumer hears of that in a step of its own, and may
    ask before.
    """

    def __init__(self, room: int = ROOM_FOR_ALL, aggregate: Callable[[Summary, int], Summary] = with_one) -> None:
        self._room, self._aggregate = room, aggregate

    def end(self) -> None:
        pass

    def begin(self) -> None:
        self._island = Island()
        self._producer, self._consumer = Producer(), Consumer(self._room)
        self._stage: Batch[int, Summary] = Batch(self._room, int, one, self._aggregate)
        self._island.connect(self._producer, self._stage)
        self._island.connect(self._stage, self._consumer)
        self._came = NOTHING
        self._asked = self._completed = self._ended = False
        self._island.start(0.0)
        self._run()

    def _run(self) -> None:
        assert not self._island.run(1_000)

    def push(self, size: int) -> None:
        if self._completed or self._came.number == PARAMETERS.elements:
            raise ActionRefused("enough has come")
        self._producer.ahead.append(size)
        self._producer.go_on()
        self._came = together(self._came, one(size))
        self._run()
        self._asked = self._consumer.inlet.has_been_pulled

    def pull(self) -> None:
        if self._asked or self._ended:
            raise ActionRefused("the consumer has asked, or knows the end")
        if self._consumer.inlet.is_in_closed:
            self._asked = True
            return
        self._consumer.batches.clear()
        self._consumer.inlet.pull()
        self._run()
        while self._stage.holds():
            self._consumer.inlet.pull()
            self._run()
        self._asked = self._consumer.inlet.has_been_pulled

    def complete(self) -> None:
        if self._completed:
            raise ActionRefused("it was completed")
        self._completed = True
        self._producer.is_over = True
        self._producer.go_on()
        self._run()

    def on_complete(self) -> None:
        if self._ended or not self._consumer.inlet.is_in_closed:
            raise ActionRefused("it has not ended, or is known to have")
        self._ended, self._asked = True, False

    def open_stream(self) -> None:
        if not self._ended:
            raise ActionRefused("it has not ended")
        self.begin()

    def held(self) -> Summary:
        """What the consumer would be given now."""
        if not self._stage.holds():
            return NOTHING
        copy = deepcopy(self, {id(EMPTY): EMPTY})
        copy.pull()
        return reduce(together, copy._consumer.batches)

    def observe(self) -> State:
        return State(
            came=self._came,
            held=self.held(),
            given=self._consumer.given,
            asked=self._asked,
            completed=self._completed,
            ended=self._ended,
        )


@pytest.mark.parametrize("room", [1, 2, ROOM_FOR_ALL])
def test_the_stage_takes_every_edge_and_refuses_everything_else(room: int) -> None:
    done = walk(SYSTEM, Replayed(partial(Chain, room)), PARAMETERS)
    assert min(done.states, done.edges, done.refusals) > 100


def newest(_so_far: Summary, size: int) -> Summary:
    return one(size)


def test_a_stage_that_keeps_the_newest_element_only_is_found_out() -> None:
    with pytest.raises(Divergence, match="held"):
        walk(SYSTEM, Replayed(partial(Chain, aggregate=newest)), PARAMETERS)
