"""The model of Pony's scheduler leads ``Actors`` through its states; runs of ``MuteScheduler`` are judged by it."""

import random
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from permitflow.errors import LocalProtocolError
from permitflow.mute import MuteScheduler
from permitflow.mute.actors import Actors
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.system import Disabled
from permitflow_model.mute_scheduler import SYSTEM, Actor, Parameters, State
from permitflow_testing import ActionRefused, Divergence
from permitflow_testing.moves import Lockstep, Move, walk

PRESSED = Parameters(actors=2, batch=1, messages=2, pressures=True)
BATCHES = Parameters(actors=2, batch=2, messages=2)
BOTH = Parameters(actors=2, batch=2, messages=2, pressures=True)
THREE = Parameters(actors=3, batch=1, messages=1)


def observed(actors: Actors[str], names: tuple[str, ...]) -> State:
    """Their state in the specification's terms."""
    return State(
        actors=Members(
            Actor(
                mailbox=len(actors[name].mailbox),
                inside=actors[name].is_inside,
                done=actors[name].done,
                overloaded=actors[name].is_overloaded,
                pressed=actors[name].is_under_pressure,
                muted=actors[name].is_muted,
            )
            for name in names
        ),
        waits=Members(Members(muter in actors[name].muters for muter in names) for name in names),
        freed=Members(Members((name, muter) in actors.freed for muter in names) for name in names),
    )


class DrivenActors:
    """The actors of the implementation; what it has no bound for, messages, is counted here."""

    def __init__(self, parameters: Parameters, kind: type[Actors[str]] = Actors) -> None:
        self.parameters = parameters
        self.names = tuple(map(str, range(parameters.actors)))
        self.actors = kind(parameters.batch)
        for name in self.names:
            self.actors.add(name)

    @property
    def is_full(self) -> bool:
        return sum(len(self.actors[name].mailbox) for name in self.names) >= self.parameters.messages

    def post(self, name: int) -> None:
        if not self.is_full:
            self.actors.post(str(name), "")

    def apply_pressure(self, name: int) -> None:
        if not self.parameters.pressures:
            raise ActionRefused("nobody is under pressure here")
        self.actors.apply_pressure(str(name))

    def release_pressure(self, name: int) -> None:
        self.actors.release_pressure(str(name))

    def send(self, name: int, to: int) -> None:
        if self.is_full:
            raise ActionRefused("no more messages")
        self.actors.send(str(name), str(to), "")

    def begin_behaviour(self, name: int) -> None:
        self.actors.begin_behaviour(str(name))

    def end_behaviour(self, name: int) -> None:
        self.actors.end_behaviour(str(name))

    def unset_overloaded(self, name: int) -> None:
        self.actors.unset_overloaded(str(name))

    def unmute_sender(self, name: int, muter: int) -> None:
        self.actors.unmute_sender(str(name), str(muter))

    def observe(self) -> State:
        return observed(self.actors, self.names)


@pytest.mark.parametrize(
    "parameters",
    [PRESSED, BATCHES, pytest.param(BOTH, marks=pytest.mark.long), pytest.param(THREE, marks=pytest.mark.long)],
    ids=["pressed", "batches", "both", "three"],
)
def test_the_actors_take_every_step_of_the_model_and_no_other(parameters: Parameters) -> None:
    done = walk(SYSTEM, DrivenActors(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 500


class SparesWhoIsBusyAtTheEnd(Actors[str]):
    """Does not mute an actor that has come under pressure after it has sent."""

    def end_behaviour(self, name: str) -> bool:
        muters, spared = self[name].muters, self[name].is_under_pressure
        if spared:
            self[name].muters = {}
        goes_on = super().end_behaviour(name)
        self[name].muters = muters
        return goes_on


class ForgetsThatItIsMuted(Actors[str]):
    """Frees the senders of an actor that is muted itself when it is released."""

    def release_pressure(self, name: str) -> None:
        super().release_pressure(name)
        if not self[name].is_overloaded:
            self._free_senders(name)


class RunsAtTheFirstWord(Actors[str]):
    """Runs again when the first of its muters has freed it."""

    def unmute_sender(self, name: str, muter: str) -> bool:
        is_last = super().unmute_sender(name, muter)
        self[name].is_muted = False
        return is_last


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [(SparesWhoIsBusyAtTheEnd, PRESSED), (ForgetsThatItIsMuted, PRESSED), (RunsAtTheFirstWord, THREE)],
)
def test_actors_that_mute_otherwise_are_found_out(kind: type[Actors[str]], parameters: Parameters) -> None:
    with pytest.raises(Divergence):
        walk(SYSTEM, DrivenActors(parameters, kind), parameters)


# Runs: actor 0 sends, actors 1 and 2 receive.

MANY = Parameters(actors=3, batch=2, messages=99, pressures=True)


class Run(Lockstep[State, Parameters, DrivenActors]):
    """The model and the actors make it together."""

    def __init__(self, parameters: Parameters = MANY) -> None:
        super().__init__(SYSTEM, DrivenActors(parameters), parameters)

    def begin(self, actor: int, *receivers: int) -> None:
        """An actor gets a message, and sends one to each of these."""
        self.do("Post", actor)
        self.do("BeginBehaviour", actor)
        for receiver in receivers:
            self.do("Send", actor, receiver)

    def behave(self, actor: int, *receivers: int) -> None:
        self.begin(actor, *receivers)
        self.do("EndBehaviour", actor)

    def overload(self, actor: int, batch: int = 2) -> None:
        """An actor runs as many messages as a batch has."""
        for _ in range(batch):
            self.do("Post", actor)
        self.drain(actor, batch)

    def drain(self, actor: int, messages: int = 1) -> None:
        for _ in range(messages):
            self.do("BeginBehaviour", actor)
            self.do("EndBehaviour", actor)

    def press(self, actor: int) -> None:
        self.begin(actor)
        self.do("ApplyPressure", actor)
        self.do("EndBehaviour", actor)

    def is_muted(self, actor: int = 0) -> bool:
        return self.state.actors.get(actor).muted

    def muters(self, actor: int = 0) -> list[int]:
        return [muter for muter, waits in enumerate(self.state.waits.get(actor)) if waits]


def test_a_sender_finishes_its_behaviour_before_it_is_muted() -> None:
    run = Run()
    run.overload(1)
    run.behave(0, 1)
    assert run.is_muted()
    assert run.state.actors.get(1).mailbox == 1
    run.drain(1)
    run.do("UnmuteSender", 0, 1)
    assert not run.is_muted()


def test_a_sender_is_muted_once_by_each_actor() -> None:
    run = Run()
    run.overload(1)
    run.behave(0, 1, 1, 1)
    assert run.muters() == [1]


def test_a_sender_to_two_overloaded_actors_waits_for_both() -> None:
    run = Run()
    for receiver in (1, 2):
        run.overload(receiver)
    run.behave(0, 1, 2)
    muted = [run.is_muted()]
    for receiver in (1, 2):
        run.drain(receiver)
        run.do("UnmuteSender", 0, receiver)
        muted.append(run.is_muted())
    assert muted == [True, True, False]


def test_an_overloaded_sender_is_not_muted() -> None:
    run = Run()
    for actor in (1, 0):
        run.overload(actor)
    run.behave(0, 1)
    assert run.muters() == []


def test_a_sender_under_pressure_is_not_muted() -> None:
    """As since ponyc #2644."""
    run = Run()
    run.overload(1)
    run.begin(0)
    run.do("ApplyPressure", 0)
    run.do("Send", 0, 1)
    run.do("EndBehaviour", 0)
    assert run.muters() == []


def test_no_actor_mutes_itself() -> None:
    run = Run()
    run.overload(0)
    run.behave(0, 0)
    assert run.muters() == []


def test_a_sender_to_a_muted_actor_is_muted_and_woken_after_it() -> None:
    run = Run()
    run.overload(2)
    run.behave(1, 2)
    run.behave(0, 1)
    assert (run.muters(0), run.muters(1)) == ([1], [2])
    run.drain(2)
    run.do("UnmuteSender", 1, 2)
    run.do("UnmuteSender", 0, 1)
    assert (run.muters(0), run.muters(1)) == ([], [])


def test_pressure_mutes_senders_until_it_is_released() -> None:
    run = Run()
    run.press(1)
    run.behave(0, 1)
    run.do("ReleasePressure", 1)
    run.do("UnmuteSender", 0, 1)
    assert not run.is_muted()


def test_pressure_and_overload_must_both_be_gone() -> None:
    run = Run()
    run.overload(1)
    run.begin(1)
    run.do("ApplyPressure", 1)
    run.behave(0, 1)
    run.do("ReleasePressure", 1)
    run.make(Move("UnmuteSender", (0, 1)))
    assert run.is_muted()
    run.do("EndBehaviour", 1)
    run.drain(1)
    run.do("UnsetOverloaded", 1)
    run.do("UnmuteSender", 0, 1)
    assert not run.is_muted()


@pytest.mark.parametrize(("messages", "overloaded"), [(99, False), (100, True)])
def test_an_actor_with_a_whole_batch_is_overloaded(messages: int, overloaded: bool) -> None:
    run = Run(replace(MANY, batch=100, messages=100))
    run.overload(1, messages)
    assert run.state.actors.get(1).overloaded == overloaded


# Recorded runs.

NAMES = ("a", "b", "c", "d")
BATCH = 3


@dataclass
class Recorded:
    """A random run of the scheduler, of which each step is recorded; a behaviour does what its dice say."""

    seed: int
    steps: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    seen: list[tuple[object, ...]] = field(default_factory=list)
    """What can be seen of the scheduler after each step."""
    pauses: set[int] = field(default_factory=set)
    """After so many steps no actor was running."""
    failures: int = 0

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        scheduler: MuteScheduler[str] = MuteScheduler(dice.randrange, batch=BATCH, record=self.record)
        self.scheduler = scheduler
        for name in NAMES:
            scheduler.spawn(name, partial(self.behave, dice, name))
        for _ in range(300):
            pick = dice.choice(NAMES)
            match dice.randrange(8):
                case 0:
                    scheduler.apply_pressure(pick)
                case 1 | 2:
                    scheduler.release_pressure(pick)
                case 3 | 4:
                    self.run_one()
                case _:
                    scheduler.send(pick, "")
            self.pauses.add(len(self.steps))

    def run_one(self) -> None:
        try:
            self.scheduler.run_one()
        except ZeroDivisionError:
            self.failures += 1

    def behave(self, dice: random.Random, name: str, _message: str, send: object) -> None:
        assert callable(send)
        for _ in range(dice.randrange(3)):
            match dice.randrange(6):
                case 0:
                    self.scheduler.apply_pressure(name)
                case 1:
                    self.scheduler.release_pressure(dice.choice(NAMES))
                case _:
                    send(dice.choice(NAMES), "")
        if dice.randrange(40) == 0:
            raise ZeroDivisionError

    def record(self, action: str, names: tuple[str, ...]) -> None:
        self.steps.append((action, tuple(map(NAMES.index, names))))
        self.seen.append(visible(self.scheduler))


def visible(scheduler: MuteScheduler[str]) -> tuple[object, ...]:
    return tuple(
        (scheduler.waiting()[name], scheduler.is_overloaded(name), scheduler.is_muted(name), scheduler.muted_by(name))
        for name in NAMES
    )


def visible_in(state: State) -> tuple[object, ...]:
    def seen_of(number: int) -> tuple[object, ...]:
        actor = state.actors.get(number)
        muters = frozenset(name for name, waits in zip(NAMES, state.waits.get(number), strict=True) if waits)
        return actor.mailbox, actor.overloaded, actor.muted, muters

    return tuple(map(seen_of, range(len(NAMES))))


def judged(run: Recorded) -> list[State]:
    """The states of a recorded run, if it is a behaviour of the specification.

    Raises:
        Divergence: a step is impossible, leads elsewhere, or breaks an invariant.
    """
    parameters = Parameters(actors=len(NAMES), batch=BATCH, messages=10**9, pressures=True)
    state = SYSTEM.initial(parameters)
    states = [state]
    for (action, arguments), seen in zip(run.steps, run.seen, strict=True):
        try:
            state = SYSTEM.perform(action, state, parameters, *arguments)
        except Disabled as refusal:
            raise Divergence(f"{action}{arguments} is impossible in {state}") from refusal
        if visible_in(state) != seen:
            raise Divergence(f"after {action}{arguments}: expected {visible_in(state)}, found {seen}")
        for name, invariant in SYSTEM.invariants.items():
            if not invariant(state, parameters):
                raise Divergence(f"{name} is broken after {action}{arguments} in {state}")
        states.append(state)
    return states


def test_recorded_runs_of_the_scheduler_are_behaviours() -> None:
    """Between two runs of actors all have heard who can keep up."""
    runs = [Recorded(seed) for seed in range(12)]
    for run in runs:
        states = judged(run)
        assert not any(any(map(any, states[pause].freed)) for pause in run.pauses)
    made = {action for run in runs for action, _ in run.steps}
    assert made == {action.name for action in SYSTEM.actions}
    assert sum(run.failures for run in runs) > 0


@pytest.mark.parametrize(
    "action", ["Post", "Send", "BeginBehaviour", "EndBehaviour", "UnmuteSender", "ApplyPressure", "ReleasePressure"]
)
def test_a_recorded_run_without_a_step_is_no_behaviour(action: str) -> None:
    run = Recorded(1)
    places = [place for place, (name, _) in enumerate(run.steps) if name == action]
    place = places[len(places) // 2]
    del run.steps[place], run.seen[place]
    with pytest.raises(Divergence):
        judged(run)


def test_a_behaviour_may_not_run_the_scheduler() -> None:
    scheduler: MuteScheduler[str] = MuteScheduler()

    def runs_all(_message: str, _send: object) -> None:
        scheduler.run()

    scheduler.spawn("actor", runs_all)
    scheduler.send("actor", "")
    with pytest.raises(LocalProtocolError, match="'actor' is running: a behaviour must not run the scheduler"):
        scheduler.run_one()
