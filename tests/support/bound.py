"""Symbolic states and parameters that are to be given ones."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import product
from typing import Any

from permitflow_model import mute_links
from permitflow_proofs.hash_dispatch import AnyMapping
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.indexed import Indexed
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.sequence import SymbolicSequence
from permitflow_proofs.kernel.symbols import Choice, Integer, Sizes, Truth, equal, limit
from permitflow_proofs.mute import AnyGraph


def bind(symbol: Any, value: Any, in_focus: Sequence[int] = ()) -> None:
    """Go on only where a symbolic value is this one.  (To be called in a claim.)

    ``in_focus``: names of members, in the order in which families have them in focus.

    Raises:
        TypeError: it is neither symbolic, nor made of symbolic values.
    """
    match symbol:
        case SymbolicQueue():
            for item in value:
                limit(symbol.size() > 0)
                bind(symbol.head(), item, in_focus)
                symbol = symbol.without_head()
            limit(equal(symbol.size(), 0))
        case SymbolicFamily():
            limit(equal(symbol.size(), len(value)))
            names = [name for name in in_focus if name < len(value)]
            for (_, member), name in zip(symbol.parts()[:-1], names, strict=False):
                bind(member, value[name], in_focus)
        case Indexed():
            limit(equal(symbol.size(), len(value)))
            for name, member in enumerate(value):
                if (one := _looked_at(symbol, name)) is not None:
                    bind(one, member, in_focus)
        case AnyMapping():
            limit(equal(symbol.channels(), value.channels()))
            for node, owner in enumerate(value):
                limit(equal(symbol.get(node), owner))
        case Integer() | SymbolicSequence():
            limit(equal(symbol, value))
        case Truth():
            limit(symbol == value)
        case Choice():
            limit(value in symbol.options and symbol == value)
        case Sizes():
            limit(equal(symbol.largest, max(value)))
        case tuple() | list():
            limit(len(symbol) == len(value))
            for one, other in zip(symbol, value, strict=False):
                bind(one, other, in_focus)
        case None | bool() | int() | str():
            limit(symbol == value)
        case _:
            raise TypeError(f"{value!r} cannot be what {symbol!r} stands for")


def _looked_at(members: Indexed[Any], name: int) -> Any:
    """A member, or None for one that proofs do not look at."""
    try:
        return members.get(name)
    except TypeError as error:
        if "nothing is known of" not in str(error):
            raise
        return None


def bind_parameters(symbolic: Any, parameters: Any) -> None:
    """Go on only where symbolic parameters are these.  (To be called in a claim.)"""
    for field in fields(parameters):
        if field.name != "hops":
            bind(getattr(symbolic, field.name), getattr(parameters, field.name))
    if isinstance(symbolic, AnyGraph):
        _bind_graph(symbolic, parameters)


def _bind_graph(symbolic: Any, parameters: Any) -> None:
    for up, down in product(parameters.names, parameters.names):
        limit(symbolic.is_hop(up, down) == parameters.is_hop(up, down))
    for node in parameters.names:
        for muter in parameters.muters:
            limit(symbolic.leads(node, muter) == parameters.leads(node, muter))
        if isinstance(parameters, mute_links.Parameters):
            limit(equal(symbolic.muter_of(node), parameters.boundary_names.get(node, 0)))
            limit(symbolic.is_behind_links(node) == parameters.is_behind_links(node))
