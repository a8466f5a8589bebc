"""Protocols whose messages are numbers: chunks of any size and barriers are alike, and there are no watermarks."""

from collections.abc import Iterator
from typing import Any, ClassVar

from permitflow.protocol.messages import Kind
from permitflow.testing.kit.adapter import Received
from permitflow.testing.kit.outside import Outside, World
from permitflow_model.kernel.system import require


class NumberedOutside(Outside):
    """Notes: of each message in the channel its number, kind and rows."""

    room: ClassVar[str]
    """The variable that says how many messages may leave."""

    def received(self, world: World, message: int) -> Received:
        """A message as the receiving application gets it."""
        of = {number: (kind, rows) for number, kind, rows in world.notes}
        kind, rows = of.get(message, (Kind.CHUNK, 1))  # only chunks of one row are withdrawn by a mistaken channel
        return Received(kind, message if kind is Kind.CHUNK else 0, rows)

    def offer(self, world: World, hop: int, kind: Kind, rows: int = 0) -> World:
        """Offer a chunk or a barrier."""
        number = world.hops[hop].offered
        others = (note for note in world.notes if note[0] != number)
        return self.act(world, hop, "Offer")._replace(notes=(*others, (number, kind, rows)))

    def withdraw(self, world: World, position: int) -> World:
        """Cancel a send; the messages behind it move up."""
        gone = tuple(world.hops[0].waiting)[position]
        notes = tuple((number - (number > gone), *it) for number, *it in world.notes if number != gone)
        return super().withdraw(world, position)._replace(notes=notes)

    def rebased_notes(self, world: World) -> Any:
        """The notes of the messages that are still in the channel."""
        here = {message for hop in world.hops for queue in (hop.waiting, hop.wire, hop.inbox) for message in queue}
        base = world.hops[-1].consumed
        return tuple(sorted((number - base, *it) for number, *it in world.notes if number in here))

    @staticmethod
    def withdrawal(state: Any, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Take back the message and all newer ones, and offer the newer ones again."""
        younger = state.waiting.size() - position - 1
        yield from [("Withdraw", ())] * (younger + 1)
        yield from [("Offer", ())] * younger

    @staticmethod
    def withdraw_action(message: int) -> str:
        """All messages are alike."""
        return "Withdraw"

    @classmethod
    def robbed(cls, state: Any) -> Any:
        """One message less may leave."""
        return state._replace(**{cls.room: getattr(state, cls.room) - 1})


class _Lets(NumberedOutside):
    """Lets some messages leave although they may not."""

    def passes(self, message: Received) -> bool:
        """May it?"""
        raise NotImplementedError

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action."""
        state = world.hops[hop]
        oldest = None if state.waiting.is_empty() else self.received(world, state.waiting.head())
        if action == "Send" and oldest is not None and self.passes(oldest):
            sent = super().act(self.with_hop(world, hop, state._replace(**{self.room: 1})), hop, action)
            return self.with_hop(sent, hop, sent.hops[hop]._replace(**{self.room: getattr(state, self.room)}))
        return super().act(world, hop, action, *arguments)


class LetsEmptyPass(_Lets):
    """Lets empty chunks pass."""

    def passes(self, message: Received) -> bool:
        """May this message leave?"""
        return message.kind is Kind.CHUNK and not message.rows


class LetsBarriersPass(_Lets):
    """Lets barriers pass."""

    def passes(self, message: Received) -> bool:
        """May this message leave?"""
        return message.kind is Kind.BARRIER


class CountsRows(NumberedOutside):
    """Lets no message of more than one row leave."""

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action."""
        waiting = world.hops[hop].waiting
        if action == "Send" and not waiting.is_empty():
            require(self.received(world, waiting.head()).rows <= 1)
        return super().act(world, hop, action, *arguments)
