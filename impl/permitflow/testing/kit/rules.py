"""The rules of the specification, and for each the mistakes that break it.

A rule is checked by runs that nobody has written down: for each mistake, the shortest run in which the model with the
mistake shows its applications something else than the model does (``probes``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.testing.kit.adapter import ChannelAdapter
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.lessons import Perform
from permitflow.testing.kit.outside import Outside
from permitflow.testing.moves import Move
from permitflow_model.specification import reference

__all__ = ["MakeAdapter", "Mistake", "Rule", "constants"]

MakeAdapter: TypeAlias = Callable[[], ChannelAdapter]
"""Makes a new adapter for a run; an adapter's class is one."""


def constants(row_permits: int, permit_batch: int = 1, clamp: int = 0) -> ChannelParameters:
    """Parameters of a small channel; without a clamp, the largest that is live."""
    return ChannelParameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=clamp or row_permits - permit_batch + 1,
        oversize=Oversize.WHOLE,
    )


@dataclass(frozen=True, eq=False)
class Mistake:
    """One way to break a rule."""

    name: str
    """What the channel does, in words that go after "it"."""

    agreed: ChannelParameters
    """The channel in which it shows."""

    moves: tuple[Move, ...]
    """What the applications may do in the run; as little as is needed, so that no other mistake shows."""

    actions: Mapping[str, Perform] = field(default_factory=dict)
    """The mistaken actions."""

    outside: type[Outside] = Outside
    """A mistake at the applications' side of the channel."""

    needs: frozenset[Feature] = frozenset()
    """Features without which the mistake cannot be made, besides those of the rule."""


@dataclass(frozen=True)
class Rule:
    """Something that every channel must do, unless it lacks what the rule is about."""

    id: str
    statement: str
    operator: str
    """What says so in ``PermitChannel.tla``; empty where the specification is silent."""

    needs: frozenset[Feature] = frozenset()
    mistakes: tuple[Mistake, ...] = ()
    contract: str = ""
    """Where it is promised, if not in the specification."""

    @property
    def clause(self) -> str:
        """File, line and name, as in ``PermitChannel.tla:141 SendChunk``."""
        if not self.operator:
            return self.contract
        return f"{reference('PermitChannel', self.operator)} {self.operator}"
