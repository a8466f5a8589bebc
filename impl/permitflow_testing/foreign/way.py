"""What an end that is made of the model has to know of its flow."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar


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
