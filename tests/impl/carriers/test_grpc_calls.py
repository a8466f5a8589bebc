"""The peer's status is found, whichever way a write has crossed it.

grpc.aio replaces the status of a call by one of its own when a write crosses the end: before the peer's status has
arrived, or after.  The order cannot be forced from outside, so that a call is played here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from permitflow.carriers import grpc_calls
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.grpc_calls import ClientCall
from permitflow.errors import PeerGoneError, PermitflowError, PermitOverrunError
from permitflow.wire.wire_errors import Metadata, status_of

Status = tuple[grpc.StatusCode, str, Metadata]

CROSSED: Status = (grpc.StatusCode.INTERNAL, "Internal error from Core", ())
MEANT = PermitOverrunError(permit_class="rows", returned=5, outstanding=3)
TOLD: Status = (grpc.StatusCode.FAILED_PRECONDITION, *status_of(MEANT)[1:])


class PlayedCall:
    """As much of a call as ClientCall sees: its status may be set again and again, and tells so each time."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.messages = list[bytes]()
        self.waits = False
        """Comes nothing before the call is cancelled?"""
        self.is_reader_cancelled = False
        self._is_cancelled = asyncio.Event()
        self._callbacks: list[Callable[[Any], None]] = []

    def set(self, status: Status) -> None:
        self.status = status
        for callback in self._callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def done(self) -> bool:
        return self.status is not None

    def cancel(self) -> bool:
        self._is_cancelled.set()
        return True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.waits:
            try:
                await self._is_cancelled.wait()
            except asyncio.CancelledError:
                self.is_reader_cancelled = True
                raise
        if not self.messages:
            raise StopAsyncIteration
        return self.messages.pop(0)

    async def write(self, message: bytes) -> None:
        raise asyncio.InvalidStateError("RPC already finished.")

    async def done_writing(self) -> None:
        raise asyncio.InvalidStateError("RPC already finished.")

    async def code(self) -> grpc.StatusCode:
        assert self.status is not None
        return self.status[0]

    async def details(self) -> str:
        assert self.status is not None
        return self.status[1]

    async def trailing_metadata(self) -> Metadata:
        assert self.status is not None
        return self.status[2]


async def error_of_write(play: Callable[[PlayedCall], None]) -> PermitflowError:
    call: Any = PlayedCall()
    carrier = ClientCall(call, "the exchange at here:1")
    call.waits = True
    conversation = Conversation(carrier)
    play(call)
    with pytest.raises(PermitflowError) as caught:
        await conversation.write([b"permits"])
    await conversation.stop()
    return caught.value


def status_before(call: PlayedCall) -> None:
    call.set(TOLD)
    call.set(CROSSED)


def status_behind(call: PlayedCall) -> None:
    call.set(CROSSED)
    asyncio.get_running_loop().call_later(0.01, call.set, TOLD)


@pytest.mark.parametrize("play", [status_before, status_behind])
async def test_the_peers_status_counts_whichever_way_the_write_crossed_it(play: Callable[[PlayedCall], None]) -> None:
    error = await error_of_write(play)
    assert (type(error), error.facts) == (PermitOverrunError, MEANT.facts)


@pytest.mark.parametrize(
    ("status", "words"),
    [(CROSSED, "the stream broke off"), ((grpc.StatusCode.OK, "", ()), "it closed the stream before the end")],
    ids=["no status", "a good end"],
)
async def test_a_stream_without_a_final_status_means_a_lost_peer(
    monkeypatch: pytest.MonkeyPatch, status: Status, words: str
) -> None:
    monkeypatch.setattr(grpc_calls, "_STATUS_SECONDS", 0.01)
    error = await error_of_write(lambda call: call.set(status))
    assert type(error) is PeerGoneError
    assert str(error).startswith(f"the exchange at here:1 is gone: {words}")


async def test_unread_messages_of_a_call_that_is_over_are_drained() -> None:
    call: Any = PlayedCall()
    call.messages = [b"message"] * 100
    conversation = Conversation(ClientCall(call, "the exchange at here:1"))
    await conversation.read()  # it reads some ahead, and no more
    call.set(CROSSED)
    left: list[bytes] = call.messages
    assert left
    await conversation.stop()
    assert left == []


async def test_a_conversation_reads_only_a_mib_ahead() -> None:
    call: Any = PlayedCall()
    call.messages = [bytes(1 << 19)] * 8
    conversation = Conversation(ClientCall(call, "the exchange at here:1"))
    await conversation.read()
    assert len(call.messages) == 6, "two have come"
    await conversation.stop()


async def test_a_call_is_left_without_cancelling_its_reader() -> None:
    call: Any = PlayedCall()
    call.waits = True
    conversation = Conversation(ClientCall(call, "the exchange at here:1"))
    await asyncio.sleep(0)
    await conversation.stop()
    assert not call.is_reader_cancelled, "gRPC frees nothing of a read whose task was cancelled"


FAILED_TO_CONNECT = "failed to connect to all addresses; last error: UNAVAILABLE: "


@pytest.mark.parametrize(
    ("code", "words", "is_unreached"),
    [
        (grpc.StatusCode.UNAVAILABLE, FAILED_TO_CONNECT + "Connection refused", True),
        (grpc.StatusCode.UNAVAILABLE, "errors resolving here:1: Domain name not found", True),
        (grpc.StatusCode.UNAVAILABLE, FAILED_TO_CONNECT + "Socket closed", False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many pending requests for this server", False),
        (grpc.StatusCode.UNKNOWN, "Unwrap failed (TSI_DATA_CORRUPTED)", False),
    ],
    ids=["nobody listens", "no such host", "lost while it is made", "no time for a call", "altered under TLS"],
)
async def test_a_call_that_may_succeed_if_made_again_is_cut(
    code: grpc.StatusCode, words: str, is_unreached: bool
) -> None:
    call: Any = PlayedCall()
    carrier = ClientCall(call, "the exchange at here:1")
    call.waits = True
    conversation = Conversation(carrier)
    call.set((code, words, ()))
    with pytest.raises(PeerGoneError):
        await conversation.write([b"permits"])
    assert (carrier.is_cut, carrier.is_unreached) == (True, is_unreached)
    await conversation.stop()
