"""A producer whose buffer is the back-pressure: a full one makes the stages wait."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import suppress
from typing import NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from permitflow.callables import plain
from permitflow.change import Change
from permitflow.errors import InvalidParametersError, KafkaRefusedError, LocalProtocolError
from permitflow.kafka.ledger import RecordPlace
from permitflow.kafka.told import place_of, refused
from permitflow.kafka.watched import watched
from permitflow.stages.core.parameters import require_at_least

T = TypeVar("T")
Value = bytes | str | None

DEFAULT_WINDOW = 10_000

_POLL_SECONDS = 0.1

_log = logging.getLogger(__name__)


class KafkaProducer:
    """Writes into topics; at most ``window`` records are out, and a full buffer makes ``send`` wait.

    Records are written idempotently and in order.  A record that could not be written for ``message.timeout.ms`` (five
    minutes, by librdkafka's default) fails the producer: nothing more is sent behind it.
    """

    def __init__(self, config: Mapping[str, object], *, window: int = DEFAULT_WINDOW) -> None:
        """Nothing is dialled before the context is entered.

        Args:
            config: librdkafka's, with ``bootstrap.servers``.
            window: the most records that are sent and not yet confirmed: ``queue.buffering.max.messages``.

        Raises:
            InvalidParametersError: ``bootstrap.servers`` is missing, or ``window`` is below 1.
        """
        require_at_least(1, window=window)
        if not config.get("bootstrap.servers"):
            raise InvalidParametersError(name="config['bootstrap.servers']", value=None, rule="must be given")
        self._config = {"enable.idempotence": True, **config, "queue.buffering.max.messages": window}
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._change = Change()
        self._out = 0
        self._told: deque[tuple[asyncio.Future[RecordPlace], RecordPlace | KafkaRefusedError]] = deque()
        """What librdkafka has told, in the thread."""
        self._failure: KafkaRefusedError | None = None

    async def __aenter__(self) -> "KafkaProducer":
        """Begin.

        Raises:
            KafkaRefusedError: librdkafka refuses the configuration.
            LocalProtocolError: it was entered before.
        """
        if self._producer is not None:
            raise LocalProtocolError("this producer was used before; make a new one for each run")
        try:
            self._producer = Producer(self._config, logger=_log)
        except KafkaException as error:
            raise refused(error.args[0], "producer") from error
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until all records are confirmed; after an error, give up those that are not.

        Raises:
            KafkaRefusedError: a record could not be written.
        """
        try:
            if kind is None:
                await self.flush()
        finally:
            if self._producer is not None:
                self._producer.purge(blocking=False)
            self._is_over.set()
            await asyncio.shield(asyncio.to_thread(self._join))

    @property
    def out(self) -> int:
        """Records that are sent and not yet confirmed."""
        return self._out

    async def send(
        self,
        topic: str,
        value: Value,
        *,
        key: Value = None,
        headers: Mapping[str, bytes] | None = None,
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> asyncio.Future[RecordPlace]:
        """Send a record; wait while the buffer is full.  The future is done when the brokers have it.

        A cancelled call has sent nothing.

        Raises:
            KafkaRefusedError: this record, or one before it, could not be written.
            LocalProtocolError: the context was not entered.
        """
        if self._producer is None:
            raise LocalProtocolError("enter the context first: async with KafkaProducer(...) as producer")
        future: asyncio.Future[RecordPlace] = self._loop.create_future()

        def tell(error: KafkaError | None, message: Message) -> None:
            self._told.append((future, refused(error, topic) if error else place_of(message)))

        while True:
            if self._failure is not None:
                raise self._failure
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    on_delivery=tell,
                    timestamp=timestamp_ms,
                    headers=dict(headers) if headers else None,
                )
            except BufferError as error:
                if self._out == 0:
                    raise KafkaRefusedError(
                        place=topic, code="_QUEUE_FULL", reason=f"{error}: it can never fit"
                    ) from error
                await self._change.wait()
            except KafkaException as error:
                raise refused(error.args[0], topic) from error
            else:
                self._out += 1
                return future

    async def flush(self) -> None:
        """Wait until all records that were sent are confirmed.

        Raises:
            KafkaRefusedError: one could not be written.
        """
        await self._change.until(lambda: self._out == 0 or self._failure is not None)
        if self._failure is not None:
            raise self._failure

    async def write(
        self,
        elements: AsyncIterable[T],
        topic: str,
        *,
        value: Callable[[T], Value],
        key: Callable[[T], Value] | None = None,
        when_written: Callable[[T], object] | None = None,
    ) -> int:
        """The sink of a stream: send a record for each element, in order; return how many.

        Args:
            elements: such as a ``Source``.
            topic: of all of them.
            value: of the record.
            key: of the record; by default none.
            when_written: called with each element, in their order, when the brokers have it and all before it: to tell
                where it came from that it is consumed.

        Raises:
            KafkaRefusedError: a record could not be written.
        """
        value = plain(value, place="write(value)")
        key = None if key is None else plain(key, place="write(key)")
        when_written = None if when_written is None else plain(when_written, place="write(when_written)")
        unconfirmed: deque[tuple[T, asyncio.Future[RecordPlace]]] = deque()
        count = 0

        def confirm() -> None:
            while unconfirmed and unconfirmed[0][1].done():
                element, future = unconfirmed.popleft()
                future.result()
                if when_written is not None:
                    when_written(element)

        async def confirming() -> NoReturn:
            while True:
                confirm()
                await self._change.wait()

        async def sending() -> None:
            nonlocal count
            async for element in elements:
                future = await self.send(topic, value(element), key=None if key is None else key(element))
                unconfirmed.append((element, future))
                count += 1
            await self.flush()

        # A source that has nothing to give must keep no confirmation back, nor an error.
        await watched(sending(), confirming())
        confirm()
        return count

    def _confirm(self) -> None:
        while self._told:
            future, found = self._told.popleft()
            self._out -= 1
            if isinstance(found, KafkaRefusedError):
                self._failure = self._failure or found
                if not future.cancelled():
                    future.set_exception(found)
                    future.exception()  # `flush` and the next `send` raise it, too
            elif not future.cancelled():
                future.set_result(found)
        self._change.note()

    def _poll(self) -> None:
        producer = self._producer
        assert producer is not None
        while not self._is_over.is_set() or len(producer):
            # Not within the callback: librdkafka has room again only when it has made all calls of a turn.
            if producer.poll(_POLL_SECONDS):
                with suppress(RuntimeError):  # a loop that was closed waits for nothing
                    self._loop.call_soon_threadsafe(self._confirm)

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
