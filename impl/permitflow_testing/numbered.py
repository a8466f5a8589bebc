"""Protocols whose messages are numbers: chunks of any size and barriers are alike, and there are no watermarks.

What all of them share: the applications' view, the rules and their mistakes, and the channels in which these show.  A
protocol says in its own words what lets a message leave, and what comes back for it.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from permitflow.flows.messages import Kind
from permitflow_model.kernel.system import require
from permitflow_testing import mistakes
from permitflow_testing.adapter import Feature, Received
from permitflow_testing.mistakes import changed_after, changed_before, right, send_from
from permitflow_testing.outside import CONSUME, Outside, Perform, World
from permitflow_testing.rules import FEW, Breach, Duty, Graph, Integer, Lacks, Rule, Rulebook, rules_in


class NumberedOutside(Outside):
    """Notes: of each message in the channel its number, kind and rows."""

    room: ClassVar[str]
    """The variable that says how many messages may leave."""
    returns: ClassVar[str]
    """The variable that says for how many consumed ones another may leave soon."""

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
    def with_room(cls, state: Any, more: int) -> Any:
        """So many messages more may leave."""
        return state._replace(**{cls.room: getattr(state, cls.room) + more})

    @classmethod
    def robbed(cls, state: Any) -> Any:
        """One message less may leave."""
        return cls.with_room(state, -1)

    @classmethod
    def returning(cls, before: Any, after: Any, change: Callable[[int], int]) -> Any:
        """The state after a step that has returned another number."""
        was = getattr(before, cls.returns)
        return after._replace(**{cls.returns: was + change(getattr(after, cls.returns) - was)})

    @classmethod
    def given_back(cls, state: Any, message: int) -> Any:
        """One message more may leave soon."""
        return cls.returning(state, state, lambda _: 1)

    @classmethod
    def consumed_silently(cls, before: Any, after: Any) -> Any:
        """None may."""
        return cls.returning(before, after, lambda _: 0)


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


class Words(NamedTuple):
    """What a protocol calls the things that all of these have."""

    answer: str
    """What comes back for a consumed message, with its article."""
    answered: str
    """What happens to a consumed message, as a part of a rule's name ..."""
    is_answered: str
    """... and in a sentence."""
    window: tuple[str, str]
    """The rule that bounds the messages that are out, and what it says."""
    free: tuple[str, str]
    """The rule about a message that may leave, and when that is."""
    withdrawn: tuple[str, str]
    """The rule about a message that was given up, and what is not done about it."""


def numbered_rules(outside: type[NumberedOutside], agreed: Any, words: Words) -> dict[str, Rule]:
    """The rules of such a protocol by their names, in a channel that lets out one message at a time."""
    answer, answered, is_answered, (window, window_says), (free, when_free), (withdrawn, is_withdrawn) = words
    when_consumed = f"A message is {is_answered} when the application has consumed it, not before."
    cancelled = "A send that was cancelled while it waited"
    send, deliver, consumed = (right(outside, name) for name in ("Send", "Deliver", CONSUME))

    def one_more(state: Any, parameters: Any) -> Any:
        return outside.with_room(send(outside.with_room(state, 1), parameters), -1)

    def always(state: Any, _: Any) -> Any:
        return state._replace(**{outside.room: 1})

    def with_another(state: Any, _: Any) -> Any:
        require(state.waiting.size() > 1)
        return state

    def returning(change: Callable[[int], int]) -> dict[str, Perform]:
        return {CONSUME: changed_after(consumed, lambda before, after: outside.returning(before, after, change))}

    lost = changed_after(deliver, lambda before, after: before._replace(wire=after.wire))
    newest = send_from(send, lambda line, _: len(line) - 1)
    forgotten = mistakes.withdraw_and_forget(outside, "Withdraw")
    table = (
        Duty(window, "Bounded", window_says),
        Breach("lets one message more leave", "1", {"Send": one_more}),
        Breach("lets any number of messages leave", "1", {"Send": changed_before(send, always)}),
        Duty(free, "Send", f"A message leaves at once {when_free}."),
        Breach("keeps a message back until a second one waits", "1", {"Send": changed_before(send, with_another)}),
        Duty("any-size", "Send", "A chunk is one message, however many rows it has.", "weights"),
        Breach("lets an empty chunk pass", "0 Receive", LetsEmptyPass),
        Breach("keeps a chunk of several rows back", "2 Receive", CountsRows),
        Duty(
            "barrier-is-a-message", "Send", f"A barrier waits for its turn and for {answer}, as chunks do.", "barriers"
        ),
        Breach("lets a barrier pass", "1 OfferBarrier", LetsBarriersPass),
        Duty(f"{answered}-when-consumed", "Consume", when_consumed),
        Breach(f"sends {answer} when a message arrives", "1", mistakes.deliver_and_return(outside)),
        Breach(
            f"sends {answer} when a message is handed over",
            "1 Take Consume",
            mistakes.ReturnsOnHandOver,
            "acknowledgement",
        ),
        Duty(f"every-message-{answered}", "Conservation", f"Each message that was consumed is {is_answered}."),
        Breach(f"leaves out {answer}", "1 Receive", returning(lambda count: max(count - 1, 0))),
        Duty(f"{answered}-once", "Conservation", f"Each message that was consumed is {is_answered} once."),
        Breach(f"sends {answer} twice", "1 Receive", returning(lambda count: 2 * count)),
        Duty("oldest-leaves-first", "Send", "Messages leave in the order in which they were offered."),
        Breach("lets the newest waiting message leave first", "1 Receive", {"Send": newest}),
        Duty("exactly-once", "ExactlyOnceInOrder", "Every message that has left is received, once and in order."),
        Breach("loses a message", "1 Receive", {"Deliver": lost}),
        Breach("hands a message over twice", "1 Receive", {"Deliver": mistakes.deliver_twice(outside)}),
        Duty("withdrawn-never-sent", "Withdraw", f"{cancelled} has sent nothing.", "cancellation"),
        Breach("sends a cancelled message later", "1 WithdrawChunk Receive", {"Withdraw": mistakes.keep_withdrawn}),
        Duty(withdrawn, "Withdraw", f"{cancelled} {is_withdrawn}.", "cancellation"),
        Breach(f"needs {answer} for a cancelled message", "1 WithdrawChunk Receive", {"Withdraw": forgotten}),
        Duty("refused-changes-nothing", "Send", "What the channel refuses leaves it as it was.", "refusals"),
        Breach("sends a refused message later", "SendChunkNow(1) Receive", mistakes.KeepsRefused),
        Breach(f"needs {answer} for a refused message", "SendChunkNow(1) Receive", mistakes.PaysForRefused),
    )
    return {one.id: one for one in rules_in(table, outside.system.module, agreed)}


class NumberedRules(Rulebook):
    """What the rulebooks of these protocols share."""

    not_modelled = frozenset({Feature.WATERMARKS})
    used_by_pairs = frozenset({Feature.CANCELLATION})
    small: ClassVar[tuple[Any, ...]]
    """Channels that show all behaviour; the first one is walked with chunks of two sizes and barriers as well."""
    runs: ClassVar[tuple[Any, Any]]
    """Channels for free runs: the first for one that is only observed."""
    unused: ClassVar[tuple[str, ...]] = ()
    """Actions that these channels do not need."""

    @abstractmethod
    def constants(self, agreed: Any, waiters: int, tags: int | None) -> Any:
        """The specification's constants; without ``tags``, as many as messages can be in such a channel."""

    @abstractmethod
    def any_channel(self, integer: Integer) -> Any:
        """Parameters for random runs."""

    def model(
        self, agreed: Any, sizes: Sequence[int], *, waiters: int, tags: int = 1, lacks: Lacks = frozenset()
    ) -> Any:
        """The specification's constants."""
        return self.constants(agreed, waiters, None if tags == FEW else tags)

    def graphs(self, lacks: Lacks, hops: int) -> list[Graph]:
        """Chunks of two sizes, and barriers, in the first channel; chunks of one size in the others."""
        plain = lacks | self.not_modelled | {Feature.WEIGHTS, Feature.BARRIERS}
        if hops > 1:
            return [Graph(self.small[0], (1,), plain | {Feature.REFUSALS})]
        first = Graph(self.small[0], (1,) if Feature.WEIGHTS in lacks else (0, 2), lacks | self.not_modelled)
        return [first, *(Graph(agreed, (1,), plain) for agreed in self.small[1:])]

    def left_out(self, lacks: Lacks) -> list[str]:
        """A pair need not be able to withdraw."""
        return [*self.unused, *(["Withdraw"] if Feature.CANCELLATION in lacks else [])]

    def drawn(self, integer: Integer, lacks: Lacks, hops: int) -> tuple[Any, tuple[int, ...]]:
        """Chunks of several sizes."""
        return self.any_channel(integer), (1,) if Feature.WEIGHTS in lacks else (0, 1, integer(2, 100))

    def drawn_pair(self, integer: Integer) -> tuple[Any, tuple[int, ...]]:
        """The model knows no sizes."""
        return self.any_channel(integer), (1,)

    def of_a_run(self, lacks: Lacks, *, is_observed: bool) -> tuple[Any, tuple[int, ...]]:
        """Chunks of several sizes."""
        return self.runs[not is_observed], (1,) if Feature.WEIGHTS in lacks else (0, 1, 5)
