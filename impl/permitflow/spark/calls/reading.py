"""A server-streaming call, read by a thread that has no event loop: at most this many messages, or for this long."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from permitflow.errors import PermitflowError, RepeatedCallError
from permitflow.spark.calls.messages import Method, function_of
from permitflow.spark.calls.metadata import sent_with
from permitflow.spark.calls.options import CallOptions, ReadCallOptions
from permitflow.spark.reused_worker import leave_imports_alone

if TYPE_CHECKING:
    import grpc

    from permitflow.spark.calls.metadata import Metadata
    from permitflow.stages import Elements

_SKIPPED_TOGETHER = 1_000


def open_channel(options: CallOptions, settings: tuple[tuple[str, int], ...]) -> "grpc.aio.Channel":
    """The channel that the user's function makes, or one without TLS; called in the event loop."""
    # gRPC must not be loaded before Spark's daemon has forked.
    import grpc

    leave_imports_alone()
    if options.channel:
        return function_of("channel", options.channel)(options.address, settings)  # type: ignore[no-any-return]
    return grpc.aio.insecure_channel(options.address, options=settings)


class OpenCall:
    """A call; use it as a context manager, or ``close`` it."""

    def __init__(self, options: ReadCallOptions, method: Method, request: object, attempt: "Metadata" = ()) -> None:
        """Make the call when the first message is asked for.  The connection is its own, and so is its window.

        ``attempt`` is the metadata that says which attempt at which task calls.
        """
        from permitflow.client.background import background

        self._options, self._method, self._request, self._attempt = options, method, request, attempt
        self._background = background()
        self._channel: grpc.aio.Channel | None = None
        self._elements: Elements[Any] | None = None
        self.messages = 0
        """Messages read, the skipped ones too."""

    def __enter__(self) -> "OpenCall":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def take(self, most: int, seconds: float, *, first_seconds: float | None) -> tuple[list[Any], bool]:
        """At most ``most`` messages, and whether the call is over.

        Args:
            most: messages.
            seconds: to wait for others after the first one.
            first_seconds: to wait for the first one; None: as long as it takes.

        Raises:
            CallError: the call has ended with an error; messages before it are lost with this call.
        """
        taken, is_over = self._background.run(lambda: self._take(most, seconds, first_seconds))
        self.messages += len(taken)
        return taken, is_over

    def skip(self, messages: int) -> None:
        """Read messages that were processed before.

        Raises:
            RepeatedCallError: the call has ended before.
        """
        while (left := messages - self.messages) > 0:
            _, is_over = self.take(min(left, _SKIPPED_TOGETHER), 0.0, first_seconds=None)
            if is_over and self.messages < messages:
                raise RepeatedCallError(
                    method=self._method.name,
                    reason=f"was called again, and ended after {self.messages:,} messages, where it gave more than "
                    f"{messages:,} before: it does not answer the same again; take delivery=best-effort and a new "
                    "checkpoint",
                )

    def close(self) -> None:
        """Cancel the call, unless it is over."""
        self._background.run(self._close)

    async def _take(self, most: int, seconds: float, first_seconds: float | None) -> tuple[list[Any], bool]:
        if self._elements is None:
            self._elements = self._opened()
        clock, taken = asyncio.get_running_loop(), list[Any]()
        left, until = first_seconds, 0.0
        while len(taken) < most:
            try:
                # A cancelled read takes no message.
                async with asyncio.timeout(left):
                    message = await anext(self._elements)
            except StopAsyncIteration:
                return taken, True
            except TimeoutError as error:
                if isinstance(error, PermitflowError):  # the call's own deadline
                    raise
                break
            if not taken:
                until = clock.time() + seconds
            taken.append(message)
            left = max(0.0, until - clock.time())
        return taken, False

    def _opened(self) -> "Elements[Any]":
        from permitflow.stages import calls

        method, call = self._method, self._options.call
        self._channel = open_channel(call, calls.Window(self._options.window_bytes).options)
        stub = self._channel.unary_stream(
            method.name, request_serializer=method.serialize, response_deserializer=method.deserialize
        )
        metadata = sent_with(call.metadata_file, call.metadata, self._attempt)
        return calls.source(stub, self._request, timeout=call.deadline_seconds, metadata=metadata).open()

    async def _close(self) -> None:
        elements, channel = self._elements, self._channel
        self._elements = self._channel = None
        if elements is not None:
            await elements.aclose()
        if channel is not None:
            await channel.close()
