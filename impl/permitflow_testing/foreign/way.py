"""What an end that is made of the model has to know of its flow."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from permitflow.flows.messages import Kind


class Way(ABC):
    """How a flow's model holds what goes back from the receiver to the sender, and what a message holds of it."""

    NAMES: ClassVar[tuple[str, ...]]
    """What a sender shows of its state; the first is also what a receiver may withhold."""

    @staticmethod
    @abstractmethod
    def start(state: Any) -> tuple[int, ...]:
        """What the sender has of each."""

    @staticmethod
    @abstractmethod
    def held(message: Any) -> tuple[int, ...]:
        """What a message holds of each."""

    @staticmethod
    @abstractmethod
    def taken(state: Any) -> tuple[list[Any], Any]:
        """What is on its way back, as the wire carries it; and the state without it."""

    @staticmethod
    @abstractmethod
    def given(state: Any, feedback: Any) -> Any:
        """The state with this on its way back."""

    @staticmethod
    def sent_watermark(state: Any) -> Any:
        """The state after a pending watermark has left, whatever its sender may."""
        raise NotImplementedError("this flow has no watermarks")

    # Of recordings: how the flow's actions and their numbers are told.

    @staticmethod
    @abstractmethod
    def batch(agreed: Any) -> int:
        """How much is returned together."""

    @staticmethod
    @abstractmethod
    def held_by(kind: Kind, rows: int, agreed: Any) -> tuple[int, ...]:
        """What such a message holds of each."""

    @staticmethod
    def action(verb: str, kind: Kind) -> str:
        """The sender's action."""
        return verb

    @staticmethod
    def arguments(rows: int, held: tuple[int, ...]) -> tuple[int, ...]:
        """The arguments of an action with a message."""
        return ()

    @staticmethod
    @abstractmethod
    def added(feedback: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """The action of a sender that gets this back, and its arguments."""

    @staticmethod
    def flushed(residue: int) -> tuple[str, tuple[int, ...]] | None:
        """The action of a receiver that returns less than a batch; None: it never does."""
        return None

    @staticmethod
    @abstractmethod
    def receiver_counters(messages: int, rows: int, unreturned: int) -> tuple[int, ...]:
        """The counters of a receiver with these messages in its inbox."""
