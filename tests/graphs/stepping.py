"""A real graph and its model, moved together: after each move both must be in the same state."""

from random import Random

from permitflow.stages.blueprint import Blueprint, Node
from permitflow_model.stage_graph import ANY, Parameters, Stage, State, end, give, initial, process_event, want
from permitflow_testing.moves import Divergence
from tests.graphs.real import RealGraph

Move = tuple[str, tuple[int, ...]]


def parameters_of(blueprint: Blueprint) -> Parameters:
    """The model of a blueprint."""
    names = [*blueprint.stages]
    arcs = blueprint.arcs
    ends = tuple((names.index(arc.producer), names.index(arc.consumer)) for arc in arcs)
    inlets = tuple(tuple(arcs.index(arc) for arc in blueprint.into(name)) for name in names)
    return Parameters(tuple(map(_stage, blueprint.stages.values())), ends, inlets)


def _stage(node: Node) -> Stage:
    number = vars(node).get
    least, most = number("gives", (1, 1))
    capacities = (number(name) for name in ("capacity", "prefetch", "window", "receive_buffer", "alarm"))
    elements = number("elements")
    return Stage(
        node.kind,
        elements=ANY if elements is None else elements,
        takes=number("takes", 1),
        least=least,
        most=ANY if most is None else most,
        capacity=next((each for each in capacities if each is not None), 0),
        overflow=getattr(number("overflow"), "value", "block"),
        batch=number("batch", 1),
        writes=number("writes", 0),
    )


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
            case "Give", (position,):
                self.real.give(self.names[position])
                self.state = give(self.state, self.parameters, position)
            case "End", (position,):
                self.real.end(self.names[position])
                self.state = end(self.state, self.parameters, position)
            case "Want", (position,):
                self.real.want(self.names[position])
                self.state = want(self.state, self.parameters, position)
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

    def moves_by_chance(self, choose: Random, count: int, greed: float = 0.5) -> int:
        """So many moves, or until nothing can move; ``greed``: how often the data choose one more.  Those made."""
        for made in range(count):
            if self.real.island.has_events:
                more = choose.random() < greed
                try:
                    process_event(self.state, self.parameters, 0)
                except Exception:
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
