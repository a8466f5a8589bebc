"""Pony's scheduler: which actor runs, and when; tests/conformance/test_mute_scheduler.py has who is muted."""

import random
from collections.abc import Callable

import pytest

from permitflow.errors import InvalidParametersError, LocalProtocolError
from permitflow.mute import MuteScheduler
from permitflow.mute.scheduler import BATCH

Actors = MuteScheduler[str]
Send = Callable[[str, str], None]


def forwards(message: str, send: Send) -> None:
    """Send a message to each actor that the message names."""
    for to in message.split():
        send(to, "")


def scheduler(*names: str) -> Actors:
    made = Actors()
    for name in names:
        made.spawn(name, forwards)
    return made


def overload(actors: Actors, name: str, more: int = 0) -> None:
    """Give an actor work for a whole batch and ``more``, and let it run the batch."""
    for _ in range(BATCH + more):
        actors.send(name, "")
    assert actors.run_one()
    assert actors.is_overloaded(name)


def test_a_sender_is_muted_until_the_overloaded_actor_has_drained() -> None:
    """It finishes its behaviour, and its message is delivered."""
    actors = Actors(lambda ready: ready - 1)  # the newest first
    for name in ("sender", "receiver"):
        actors.spawn(name, forwards)
    overload(actors, "receiver", more=50)
    actors.send("sender", "receiver")
    actors.send("sender", "")
    actors.run_one()
    assert actors.is_muted("sender")
    assert actors.waiting() == {"sender": 1, "receiver": 51}
    actors.run_one()
    assert not actors.is_muted("sender")
    actors.run()
    assert actors.waiting()["sender"] == 0


def test_a_muted_sender_runs_again_when_its_muter_is_released() -> None:
    actors = scheduler("sender", "receiver")
    actors.apply_pressure("receiver")
    actors.send("sender", "receiver")
    actors.send("sender", "")
    actors.run()
    assert actors.muted_by("sender") == {"receiver"}
    assert actors.waiting()["sender"] == 1
    actors.release_pressure("receiver")
    actors.run()
    assert actors.waiting()["sender"] == 0


NODES, TOKENS, TIME_TO_LIVE = 48, 600, 16


def ring(seed: int) -> tuple[str, ...]:
    """Pony's systematic test: tokens go round a ring of nodes; to whom each was passed on, in order."""
    actors: MuteScheduler[int] = MuteScheduler(random.Random(seed).randrange, batch=4)
    passed: list[str] = []

    def node(to: str) -> Callable[[int, Callable[[str, int], None]], None]:
        def pass_on(left: int, send: Callable[[str, int], None]) -> None:
            passed.append(to)
            if left:
                send(to, left - 1)

        return pass_on

    for number in range(NODES):
        actors.spawn(f"{number}", node(f"{(number + 1) % NODES}"))
    for number in range(TOKENS):
        actors.send(f"{number % 7}", TIME_TO_LIVE)
    actors.run()
    return tuple(passed)


def test_a_seed_determines_the_order_of_all_runs() -> None:
    runs = [ring(seed) for seed in range(5)]
    assert [*map(len, runs)] == [TOKENS * (TIME_TO_LIVE + 1)] * 5
    assert [ring(seed) for seed in range(5)] == runs
    assert len({*runs}) == 5


def test_a_cycle_of_senders_cannot_lock_itself_up() -> None:
    """A ring in which every node has a batch of messages: overloaded senders are not muted."""
    actors: MuteScheduler[int] = MuteScheduler(batch=2)

    def node(to: str) -> Callable[[int, Callable[[str, int], None]], None]:
        return lambda left, send: send(to, left - 1) if left else None

    for number in range(3):
        actors.spawn(f"{number}", node(f"{(number + 1) % 3}"))
    for number in range(60):
        actors.send(f"{number % 3}", 10)
    actors.run()
    assert set(actors.waiting().values()) == {0}


def test_an_actor_whose_behaviour_fails_goes_on_with_the_next_message() -> None:
    actors = scheduler("actor")
    actors.send("actor", "stranger")
    actors.send("actor", "")
    with pytest.raises(LocalProtocolError, match="no actor 'stranger'"):
        actors.run()
    actors.run()
    assert actors.waiting() == {"actor": 0}


def test_misuse_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="'actor' already"):
        scheduler("actor", "actor")
    with pytest.raises(InvalidParametersError, match="batch must be at least 1, not 0"):
        MuteScheduler[str](batch=0)
