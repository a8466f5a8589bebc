"""The shortest run that tells a mistake from the model, found by search: nobody writes test cases by hand."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from permitflow.protocol.parameters import ChannelParameters
from permitflow.testing.kit.lessons import spoilt
from permitflow.testing.kit.outside import Outside, Seen, World, canonical
from permitflow.testing.kit.rules import Mistake
from permitflow.testing.moves import Move
from permitflow.testing.traces import model_of
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import Parameters

__all__ = ["Probe", "outside_of", "parameters_of", "probe_for"]

MOST_WAITING = 2
"""Chunks that wait at once in a run that is searched for."""

# A mistake that cannot be seen in so many states, or in so many moves, is not seen by applications.
MOST_PAIRS = 10_000
MOST_MOVES = 20


class Probe(NamedTuple):
    """A run, and what the mistaken model shows at its end."""

    moves: tuple[Move, ...]
    mistaken: frozenset[Seen]


def parameters_of(agreed: ChannelParameters, sizes: Iterable[int], *, idle_flush: bool = True) -> Parameters:
    """The model of a channel with few who wait, and with chunks that can be told apart."""
    largest = max(sizes, default=1)
    numbered = model_of(agreed, sizes=(largest,), waiters=MOST_WAITING)
    # Without a bound on the numbers, so that the application's chunk 7 is the model's chunk 7.
    return replace(numbered, tags=2**62, flush_idle=idle_flush)


def outside_of(
    mistake: Mistake,
    made: tuple[Mistake, ...] = (),
    *,
    hops: int = 1,
    idle_flush: bool = True,
    waiters: int = MOST_WAITING,
) -> Outside:
    """The channel in which a mistake shows, as a model that makes the mistakes ``made``, the last one first of all."""
    sizes = [move.arguments[0] for move in mistake.moves if move.action in ("OfferChunk", "SendChunkNow")]
    parameters = parameters_of(mistake.agreed, sizes, idle_flush=idle_flush)
    actions = {name: perform for one in made for name, perform in one.actions.items()}
    kind = next((one.outside for one in reversed(made) if one.outside is not Outside), Outside)
    return kind(replace(parameters, waiters=waiters), hops=hops, system=spoilt(actions))


@cache
def probe_for(
    mistake: Mistake, known: tuple[Mistake, ...] = (), *, hops: int = 1, idle_flush: bool = True
) -> Probe | None:
    """The shortest run that tells the mistake from a channel that makes only those that are ``known``.

    None if the applications cannot see it in such a channel.
    """
    right = outside_of(mistake, known, hops=hops, idle_flush=idle_flush)
    # A mistaken channel may hold more of those who wait than there are.
    wrong = outside_of(mistake, (*known, mistake), hops=hops, idle_flush=idle_flush, waiters=2 * MOST_WAITING)
    return _search(right, wrong, mistake.moves)


def _search(right: Outside, wrong: Outside, alphabet: tuple[Move, ...]) -> Probe | None:
    start = (right.start(), wrong.start())
    met = {start}
    todo: deque[tuple[World, World, tuple[Move, ...]]] = deque([(*start, ())])
    while todo and len(met) < MOST_PAIRS:
        here, there, run = todo.popleft()
        if len(run) == MOST_MOVES:
            return None
        for move in right.moves(here, alphabet):
            due = list(right.make(here, move))
            if len(due) > 1:
                continue  # the model leaves a choice: no channel could be blamed
            did = _made(wrong, there, move)
            if not any(seen == due[0][0] for seen, _ in did):
                return Probe((*run, move), frozenset(seen for seen, _ in did))
            for seen, after in did:
                pair = (canonical(due[0][1]), canonical(after))
                if seen == due[0][0] and pair not in met:
                    met.add(pair)
                    todo.append((due[0][1], after, (*run, move)))
    return None


def _made(wrong: Outside, world: World, move: Move) -> list[tuple[Seen, World]]:
    try:
        return list(wrong.make(world, move))
    except Disabled:
        return []
