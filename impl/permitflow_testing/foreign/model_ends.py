"""One end of a channel, made of the model: it moves by the specification's actions, and takes whatever comes.

The model's state holds both ends; such an end uses its own half, and the other half is the driver's.  It refuses
nothing, so that a mistake of the driver's end shows as it does in a channel, and is called by its name: permits that
come twice are here twice.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

from permitflow.flows.messages import Kind
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled
from permitflow_testing.adapter import ReceivedMessage, Refused
from permitflow_testing.foreign.table import WAYS
from permitflow_testing.outside import CONSUME, DONE, Outside, World


class Leaving(NamedTuple):
    """A message that leaves a sender."""

    kind: Kind
    rows: int
    payload: Any
    held: tuple[int, ...] = ()
    """What it holds of each class, once it leaves."""


class ModelEnd:
    """The common part: the model's state, and this end's own actions in it."""

    END: ClassVar[str]

    def __init__(self, outside: Outside, flow: str) -> None:
        """At rest; ``outside`` is the model with the parameters of the channel."""
        self._outside = outside
        self._way = WAYS[flow]
        self._world: World = outside.start()
        self._at_sender = [*self._way.start(self.state)]
        actions = outside.system.actions
        self._own = [
            action.name
            for action in sorted(actions, key=lambda action: not action.is_arrival)
            if action.end == self.END and not action.is_environment and action.name != CONSUME
        ]

    @property
    def state(self) -> Any:
        """The model's; only this end's half means something."""
        return self._world.hops[0]

    @property
    def shown_by_sender(self) -> dict[str, int]:
        """What a sender has, by what was on the wire."""
        return dict(zip(self._way.NAMES, self._at_sender, strict=True))

    def _count(self, amounts: Sequence[int], sign: int) -> None:
        self._at_sender = [here + sign * amount for here, amount in zip(self._at_sender, amounts, strict=True)]

    def _become(self, state: Any) -> None:
        self._world = self._outside.with_hop(self._world, 0, state)

    def _act_alone(self) -> Iterator[str]:
        """Make every step that needs no application; yield each action's name after it was made."""
        while True:
            for action in self._own:
                with suppress(Disabled):
                    self._world = self._outside.act(self._world, 0, action)
                    yield action
                    break
            else:
                return


class ModelSender(ModelEnd):
    """The kit's end as a sender."""

    END = "sender"

    def __init__(self, outside: Outside, flow: str) -> None:
        """Nothing was offered yet."""
        super().__init__(outside, flow)
        self._line: deque[tuple[int, Leaving]] = deque()
        self._watermark: Any = None
        self._keys = 0
        self.leaving: list[Leaving] = []
        """What has left, and is to be written."""
        self.left: set[int] = set()
        """The keys of offers that have left."""
        self.totals = {Kind.CHUNK: 0, Kind.BARRIER: 0}
        self.rows = 0
        """The rows of all chunks that have left."""
        self._unconsumed: deque[int] = deque()
        self._owed = 0

    @property
    def has_waiting(self) -> bool:
        """Does anything wait to leave?"""
        return bool(self._line) or self._watermark is not None

    def offer(self, kind: Kind, rows: int, payload: Any) -> int:
        """Put a message in line; its key."""
        self._keys += 1
        self._world = self._outside.offer(self._world, 0, kind, rows)
        self._line.append((self._keys, Leaving(kind, rows, payload)))
        self._run()
        return self._keys

    def send_now(self, rows: int, payload: Any) -> None:
        """Send a chunk at once.

        Raises:
            Refused: it may not leave.
        """
        outcome, world = self._outside.send_now(self._world, rows)
        if outcome != DONE:
            raise Refused("it may not leave now")
        self._world = world
        self._line.append((0, Leaving(Kind.CHUNK, rows, payload)))
        self._run()

    def announce(self, value: int) -> None:
        """Announce a watermark."""
        self._world = self._outside.announce(self._world, 0, value)
        self._watermark = value
        self._run()

    def withdraw(self, key: int) -> bool:
        """Take back an offer that waits; False: it has left."""
        for position, (number, _) in enumerate(self._line):
            if number == key:
                self._world = self._outside.withdraw(self._world, position)
                del self._line[position]
                self._run()
                return True
        return False

    def withdraw_all(self) -> None:
        """Take back every offer that waits."""
        for key, _ in [*self._line][::-1]:
            self.withdraw(key)

    def note_consumed(self) -> None:
        """The driver's application has consumed its oldest message."""
        if self._unconsumed:
            self._owed += self._unconsumed.popleft()

    @property
    def shown_by_receiver(self) -> dict[str, int]:
        """What a receiver withholds of what was consumed, by what was on the wire."""
        return {"unreturned": self._owed}

    def on_feedback(self, feedback: Any) -> None:
        """Take what the receiver has returned."""
        self._become(self._way.given(self.state, feedback))
        self._owed -= feedback[0]
        self._run()

    def _run(self) -> None:
        self._note_sent()
        for _ in self._act_alone():
            self._note_sent()

    def _note_sent(self) -> None:
        """Empty the model's wire."""
        for message in self.state.wire:
            held = self._way.held(message)
            self._unconsumed.append(held[0])
            if self._outside.received(self._world, message).kind is Kind.WATERMARK:
                self.leaving.append(Leaving(Kind.WATERMARK, 0, self._watermark, held))
                self._watermark = None
                continue
            key, leaving = self._line.popleft()
            self.leaving.append(leaving._replace(held=held))
            self.left.add(key)
            self.totals[leaving.kind] += 1
            self.rows += leaving.rows
        self._become(self.state._replace(wire=Fifo()))


class ModelReceiver(ModelEnd):
    """The kit's end as a receiver."""

    END = "receiver"

    def __init__(self, outside: Outside, flow: str) -> None:
        """Nothing has come yet."""
        super().__init__(outside, flow)
        self.untaken: deque[ReceivedMessage] = deque()
        self._taken = 0
        self.feedback: list[Any] = []
        """What is to be written."""
        self.totals = {Kind.CHUNK: 0, Kind.BARRIER: 0, Kind.WATERMARK: 0}
        self.rows = 0
        """The rows of all chunks that have come."""

    @property
    def is_idle(self) -> bool:
        """Was everything that has come consumed?"""
        return not self.untaken and not self._taken

    def arrive(self, message: ReceivedMessage) -> tuple[int, ...]:
        """A message has come; what it holds of each class."""
        self.totals[message.kind] += 1
        self.rows += message.rows
        if message.kind is Kind.WATERMARK:
            self._world = self._outside.announce(self._world, 0, message.value or 0)
            self._become(self._way.sent_watermark(self.state))
            self._world = self._outside.act(self._world, 0, "SendWatermark")
        else:
            self._world = self._outside.offer(self._world, 0, message.kind, message.rows)
            state = self.state
            self._become(state._replace(waiting=Fifo(), wire=state.wire.push(state.waiting.last())))
        held = self._way.held(self.state.wire.last())
        self._count(held, -1)
        self.untaken.append(message)
        self._run()
        return held

    def take(self) -> ReceivedMessage:
        """Take the oldest message that was not taken."""
        self._taken += 1
        return self.untaken.popleft()

    def consume(self) -> None:
        """The oldest taken message was consumed."""
        self._taken -= 1
        self._world = self._outside.act(self._world, 0, CONSUME)
        self._run()

    def _run(self) -> None:
        for _ in self._act_alone():
            pass
        feedback, state = self._way.taken(self.state)
        self._become(state)
        for each in feedback:
            self._count(each, 1)
        self.feedback += feedback
