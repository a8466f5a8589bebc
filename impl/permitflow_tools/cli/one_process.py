"""One of several processes of an exchange: it has some of the channels, and does what the first process asks.

Over a pair of sockets, the first process sends it a ``ProcessShare``, then ``Order``s.  Both ends are of one program
and one user: their messages are pickles.  When the first process is gone, so is this one.
"""

import asyncio
import gc
import logging
import pickle
import signal
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from permitflow.carriers import tls_files
from permitflow.carriers.addresses import parsed
from permitflow.carriers.framing import HEADER_BYTES, header, parse_header
from permitflow.errors import MovedError, PeerGoneError, PermitflowError
from permitflow.exchange import administration, certificate_watch
from permitflow.exchange.access import Access, AccessControl
from permitflow.exchange.draining import Remainder, drain, remainder
from permitflow.exchange.limits import Limits
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.serving import carry_out, traffic_through
from permitflow.metrics import ExchangeFigures
from permitflow.stream.control import AddStream, ControlReply, ControlRequest
from permitflow.stream.traffic import Statistics
from permitflow_tools.cli import open_what_was_closed
from permitflow_tools.cli.logs import LogLevel
from permitflow_tools.cli.serving import all_descriptors
from permitflow_tools.cli.unblocked import dropped_in_words, unblocked_output

_PICKLE = 0  # the kind of every message here


class Line:
    """Messages between two processes of one exchange."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use ``over``."""
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Line":
        """The end of a connected socket, which belongs to the line from now on."""
        return cls(*await asyncio.open_connection(sock=end))

    async def read(self) -> object:
        """The next message; None: the other process is gone."""
        try:
            head = parse_header(memoryview(await self._reader.readexactly(HEADER_BYTES)))
            return pickle.loads(await self._reader.readexactly(head[1])) if head else None
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def write(self, message: object) -> None:
        """Send a message; in vain if the other process is gone, which ``read`` tells."""
        encoded = pickle.dumps(message)
        self._writer.write(header(_PICKLE, len(encoded)) + encoded)
        with suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


@dataclass(frozen=True, kw_only=True)
class ProcessShare:
    """What one process serves."""

    channels: tuple[str, ...]
    address: str
    settings: Mapping[str, Any]
    """The arguments of its ``Exchange``."""
    limits: Limits
    serving: Mapping[str, Any]
    """The arguments of its ``ExchangeServer``."""
    rights: Path | None
    token_file: Path | None
    log_level: LogLevel | None
    added: tuple[tuple[AddStream[Any], Collection[str]], ...] = ()
    """Streams that were added later, and those of their channels that are still there."""
    door_port: int | None = None
    """None: the first process does not listen yet."""
    loss: str = ""
    """Why rows that were in these channels are lost, as in an earlier process that had them; empty: none are."""


class Begun(NamedTuple):
    """A process can be dialled."""

    port: int
    most_bytes: int | None
    before_streams_bytes: int


class Order(NamedTuple):
    """What the first process wants."""

    number: int
    name: str
    argument: Any


class OrderOutcome(NamedTuple):
    """The outcome of an order, which may be an error."""

    number: int
    outcome: Any


class _Door:
    """The first process, as the others know it: it has, or knows, what they do not have."""

    known: Collection[str] = ()

    def __init__(self, port: int | None) -> None:
        self.port = port

    def missing(self, channel: str) -> PermitflowError:
        return self._moved(f"channel {channel!r}")

    async def carry_out(self, request: ControlRequest, access: Access) -> NoReturn:
        raise self._moved("the administration of this exchange")

    def _moved(self, what: str) -> PermitflowError:
        if self.port is None:
            return PeerGoneError(who="the exchange", reason="it has not begun yet")
        return MovedError(what=what, port=self.port)


class _Process:
    """Does what the first process asks."""

    def __init__(self, exchange: Exchange, server: ExchangeServer, door: _Door) -> None:
        self._exchange, self._server, self._door = exchange, server, door
        self.orders: Mapping[str, Callable[[Any], Awaitable[object]]] = {
            "know": self.know,
            "live": self.live,
            "check": self.check,
            "carry_out": self.carry_out,
            "figures": self.figures,
            "drain": self.drain,
            "stop": self.stop,
        }

    async def know(self, port: int) -> None:
        self._door.port = port

    async def live(self, _: None) -> None:
        """An answer is all."""

    async def carry_out(self, request: ControlRequest) -> ControlReply[Any]:
        return await carry_out(self._exchange, request)

    async def check(self, request: administration.Change) -> None:
        administration.require_possible(self._exchange, request)

    async def figures(self, _: None) -> ExchangeFigures:
        return await ExchangeFigures.of(self._exchange)

    async def drain(self, seconds: float) -> None:
        await drain(self._exchange, seconds)

    async def stop(self, _: None) -> tuple[Statistics, Remainder]:
        await self._server.stop()
        return await traffic_through(self._exchange), remainder(self._exchange)


async def serve(line: Line) -> None:
    """Serve what the process at the other end says, until it hangs up; an error ends it, and is told there."""
    share = await line.read()
    if not isinstance(share, ProcessShare):
        return
    if share.log_level is not None:
        share.log_level.apply()
    door = _Door(share.door_port)
    try:
        control = None
        if share.rights is not None or share.token_file is not None:
            control = AccessControl(rights=share.rights, token_file=share.token_file)
        exchange = Exchange(limits=share.limits.within(all_descriptors()), elsewhere=door, **share.settings)
        await _add_channels(exchange, share)
        gc.freeze()
        async with ExchangeServer(exchange, share.address, access=control, **share.serving) as server:
            port, memory = parsed(server.address).port, exchange.admission.memory
            await line.write(Begun(port, exchange.most_bytes, memory.before_streams_bytes))
            await _obey(line, _Process(exchange, server, door).orders)
    except Exception as error:
        cause = error
        while isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]
        await line.write(cause)
        if not isinstance(cause, PermitflowError):  # where it comes from is for the log
            raise


async def _add_channels(exchange: Exchange, share: ProcessShare) -> None:
    exchange.add_channels(share.channels)
    for request, left in share.added:
        await carry_out(exchange, request)
        await exchange.remove_channels([name for name in request.named if name not in left])
    if share.loss:
        for name in exchange.names:
            exchange.channel(name).abort(share.loss)


async def _obey(line: Line, orders: Mapping[str, Callable[[Any], Awaitable[object]]]) -> None:
    async def answer(order: Order) -> None:
        outcome: object
        try:
            outcome = await orders[order.name](order.argument)
        except Exception as error:
            outcome = error
        await line.write(OrderOutcome(order.number, outcome))

    async with asyncio.TaskGroup() as group:
        tasks = set[asyncio.Task[None]]()
        while isinstance(order := await line.read(), Order):
            task = group.create_task(answer(order))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        for task in tasks:
            task.cancel()


async def _main(descriptor: int) -> None:
    line = await Line.over(socket.socket(fileno=descriptor))
    try:
        await serve(line)
    finally:
        line.close()


def main(descriptor: int) -> None:
    """Serve what the process at the other end of this socket says."""
    open_what_was_closed()
    # The first process hears the signals, and tells the others what to do: a supervisor may signal all of them at once.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # It reads the same files, too, and says once for all what is wrong with them.
    for each in (certificate_watch, tls_files):
        logging.getLogger(each.__name__).disabled = True
    with unblocked_output(dropped_in_words):
        asyncio.run(_main(descriptor))
