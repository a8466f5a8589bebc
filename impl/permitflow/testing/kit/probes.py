"""The shortest run that tells a mistake from the model, found by search: nobody writes test cases by hand."""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import NamedTuple, TypeAlias

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


_Worlds: TypeAlias = frozenset[World]


def _search(right: Outside, wrong: Outside, alphabet: tuple[Move, ...]) -> Probe | None:
    start = (frozenset({right.start()}), frozenset({wrong.start()}))
    met = {start}
    todo: deque[tuple[_Worlds, _Worlds, tuple[Move, ...]]] = deque([(*start, ())])
    while todo and len(met) < MOST_PAIRS:
        here, there, run = todo.popleft()
        if len(run) == MOST_MOVES:
            return None
        for move in right.moves(next(iter(here)), alphabet):
            due = _made(right, here, move)
            if len(due) > 1:
                continue  # the model leaves a choice that is seen: no channel could be blamed
            did = _made(wrong, there, move)
            ((seen, after),) = due.items()
            if seen not in did:
                return Probe((*run, move), frozenset(did))
            pair = (_canonical(after), _canonical(did[seen]))
            if pair not in met:
                met.add(pair)
                todo.append((after, did[seen], (*run, move)))
    return None


def _made(outside: Outside, worlds: _Worlds, move: Move) -> dict[Seen, _Worlds]:
    """What may be seen after a move, and the worlds in which it is."""
    found: dict[Seen, set[World]] = {}
    for world in worlds:
        with suppress(Disabled):
            for seen, after in outside.make(world, move):
                found.setdefault(seen, set()).add(after)
    return {seen: frozenset(after) for seen, after in found.items()}


def _canonical(worlds: _Worlds) -> _Worlds:
    return frozenset(map(canonical, worlds))
