"""A real graph and its model, moved together: after each move both must be in the same state."""

from random import Random

from permitflow.stages.blueprint import Blueprint
from permitflow_model.kernel.system import Disabled
from permitflow_model.stage_graph import Board, State, initial, process_event
from permitflow_testing.moves import Divergence
from permitflow_tools.checking.graphs_structure import parameters_of
from tests.graphs.real import RealGraph

Move = tuple[str, tuple[int, ...]]


class Stepping:
    """Both, from their beginning on."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.names = [*blueprint.stages]
        self.parameters = parameters_of(blueprint)
        self.state: State = initial(self.parameters)
        self._more, self._has_chosen = True, False
        self.real = RealGraph(blueprint, self._choose)
        self.moves: list[Move] = []
        self._compare()

    def _choose(self, _: str) -> bool:
        self._has_chosen = True
        return self._more

    def move(self, action: str, *arguments: int) -> None:
        """Make a move.

        Raises:
            Divergence: the states differ, or one of them refuses.
        """
        self.moves.append((action, arguments))
        match action, arguments:
            case "ProcessEvent", (more,):
                self._more, self._has_chosen = more != 0, False
                self.real.run_event()
                if not more and not self._has_chosen:
                    raise Divergence(f"{self.moves[-1]}: no data decide")
                self.state = process_event(self.state, self.parameters, more)
            case "Give" | "End" | "Want" | "Leave", (position,):
                # Not by the actions of these names: an island that does not come to rest lets the outside move, too.
                board = Board(self.state, self.parameters)
                if action == "Leave":
                    board.cancel(self.parameters.logics[position].inlet)
                else:
                    getattr(board, action.lower())(position)
                getattr(self.real, action.lower())(self.names[position])
                self.state = board.state()
            case _:
                raise Divergence(f"no such move: {action}{arguments}")
        self._compare()

    def _compare(self) -> None:
        real, model = self.real.tokens(), self.state.arcs
        if real != model:
            arcs = self.real.blueprint.arcs
            told = "; ".join(
                f"{arc} is {mine!r}, in the model {theirs!r}"
                for arc, mine, theirs in zip(arcs, real, model, strict=True)
                if mine != theirs
            )
            raise Divergence(f"after {self.moves[-1:]}: {told}")
        if self.real.island.has_events != bool(self.state.queue):
            raise Divergence(f"after {self.moves[-1:]}: events are left in one of them only")

    def moves_by_chance(self, choose: Random, count: int, greed: float = 0.5, *, leaves_after: int = -1) -> int:
        """So many moves, or until nothing can move; ``greed``: how often the data choose one more.  Those made.

        A sink leaves after so many.
        """
        for made in range(count):
            if made == leaves_after and (sinks := self.real.open_sinks()):
                self.move("Leave", self.names.index(choose.choice(sinks)))
                continue
            if self.real.island.has_events:
                more = choose.random() < greed
                try:
                    process_event(self.state, self.parameters, 0)
                except Disabled:
                    more = True
                self.move("ProcessEvent", int(more))
                continue
            outside = [("Want", self.names.index(name)) for name in self.real.idle_sinks()]
            for name in self.real.asked_sources():
                position = self.names.index(name)
                outside.append(("End" if self.state.stages[position][0] == 0 else "Give", position))
            if not outside:
                return made
            self.move(*choose.choice(outside))
        return count
