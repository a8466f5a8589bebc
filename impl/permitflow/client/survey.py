"""The channels of several exchanges: where each is; some may not answer, and two may have the same channel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from permitflow.carriers.addresses import ranked
from permitflow.errors import InvalidParametersError, PeerGoneError, shortened

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Survey:
    """What several exchanges that were asked for channels have told beside these."""

    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Why an exchange has not answered, by its address: its channels are missing."""
    twice: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The addresses of those that have the same channel, by its name: clients use the first of these that answers."""

    places: Mapping[str, str] = field(default_factory=dict)
    """The address of the exchange that has a channel, by its name; empty with a single address."""

    @property
    def is_whole(self) -> bool:
        """Have all answered, and has each channel one place?"""
        return not self.unanswered and not self.twice

    @property
    def words(self) -> list[str]:
        """A sentence for each thing that is amiss."""
        return [
            *(f"no answer from {at}, its channels are missing here: {why}" for at, why in self.unanswered.items()),
            *(f"channel {shortened(name)!r} {_one_place(places)}" for name, places in self.twice.items()),
        ]

    def of(self, channel: str) -> dict[str, object]:
        """Where a channel is, for a program; empty with a single address."""
        return {"exchange": self.places[channel]} if channel in self.places else {}

    def as_json(self) -> dict[str, object]:
        """What is amiss, for a program; empty if nothing is."""
        told = {"unanswered": self.unanswered, "twice": {name: [*places] for name, places in self.twice.items()}}
        return {name: each for name, each in told.items() if each}


def surveyed(
    answers: Mapping[str, Sequence[C] | PeerGoneError], name_of: Callable[[C], str], *, partial: bool
) -> tuple[list[C], Survey]:
    """The channels of several exchanges; of one that two have, only what the first place for clients says.

    Args:
        answers: by address.
        name_of: the name of a channel.
        partial: also if only some have answered, or two have the same channel.

    Raises:
        PeerGoneError: not all have answered; or, with ``partial``, none has.
        InvalidParametersError: two have the same channel.
    """
    gone = {address: answer for address, answer in answers.items() if isinstance(answer, PeerGoneError)}
    if gone and (not partial or len(gone) == len(answers)):
        raise next(iter(gone.values()))
    told = [
        (address, each)
        for address, answer in answers.items()
        if not isinstance(answer, PeerGoneError)
        for each in answer
    ]
    places: dict[str, list[str]] = {}
    for address, each in told:
        places.setdefault(name_of(each), []).append(address)
    if not partial:
        for name, some in places.items():
            require_one_place(name, ranked(some, name))
    twice = {name: tuple(ranked(some, name)) for name, some in places.items() if len(some) > 1}
    at = {name: twice.get(name, some)[0] for name, some in places.items()}
    kept = [each for address, each in told if at[name_of(each)] == address]
    return kept, Survey({address: str(error) for address, error in gone.items()}, twice, at)


def require_one_place(channel: str, places: Sequence[str]) -> None:
    """Refuse a channel that several exchanges have.

    Raises:
        InvalidParametersError: there are several places.
    """
    if len(places) > 1:
        raise InvalidParametersError(name="channel", value=channel, rule=_one_place(places))


def _one_place(places: Sequence[str]) -> str:
    return f"must be at one exchange ({' and '.join(places)} have it: remove all but one)"
