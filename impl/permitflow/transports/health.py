"""Asks an exchange whether it takes streams, with the standard health protocol of gRPC; for blocking callers."""

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from permitflow.errors import PeerGoneError, PeerTimeoutError, PermitflowError, UndecodableDataError
from permitflow.transports.addresses import is_tcp
from permitflow.transports.blocking_calls import BlockingTcpCall, Closed, receive_within
from permitflow.transports.connection import CLIENT_OPTIONS, HEALTH_CHECK, SERVICE
from permitflow.transports.shared_memory.blocking_link import Outgoing
from permitflow.transports.wire_errors import SILENT, error_from_status

__all__ = ["LIVENESS", "READINESS", "is_serving", "read_question", "write_answer"]

READINESS = ("", SERVICE)
"""The services that serve while the exchange takes streams: not while it loads its store, nor once it is to stop."""

LIVENESS = "liveness"
"""The service that serves for as long as the exchange answers at all."""


def is_serving(address: str, *, service: str = "", timeout_seconds: float = 5.0) -> bool:
    """Ask the exchange at ``address``.

    Args:
        address: host and port for gRPC, ``tcp://`` before them for TCP.
        service: one of ``READINESS``, or ``LIVENESS``.
        timeout_seconds: the longest wait for an answer.

    Raises:
        PeerGoneError: nobody answers.
        PeerTimeoutError: nobody answers in time.
        InvalidParametersError: it is no address, or there is no such service.
        TransportError: whoever answers is no exchange, or has no such service.
        UndecodableDataError: this is no answer.
    """
    who = f"the exchange at {address}"
    ask = _ask_over_tcp if is_tcp(address) else _ask_over_grpc
    answer = ask(address, who, health_pb2.HealthCheckRequest(service=service).SerializeToString(), timeout_seconds)
    try:
        status = health_pb2.HealthCheckResponse.FromString(answer).status
    except DecodeError as error:
        raise UndecodableDataError(what="the answer to a health question", reason=str(error)) from error
    return bool(status == health_pb2.HealthCheckResponse.SERVING)


def _ask_over_grpc(address: str, who: str, question: bytes, timeout_seconds: float) -> bytes:
    with grpc.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
        try:
            return check(question, timeout=timeout_seconds)
        except grpc.RpcError as error:
            raise _typed(error, who, timeout_seconds) from None


def _typed(error: grpc.RpcError, who: str, timeout_seconds: float) -> PermitflowError:
    assert isinstance(error, grpc.Call)  # what a call raises is the call
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return _silent(who, timeout_seconds)
    return error_from_status(error.code(), error.details(), error.trailing_metadata() or (), who=who)


def _ask_over_tcp(address: str, who: str, question: bytes, timeout_seconds: float) -> bytes:
    call = BlockingTcpCall(address, HEALTH_CHECK, who=who, on_closed=lambda: None)
    try:
        call.write(Outgoing([question]))
        answer = receive_within(call, timeout_seconds)
    finally:
        call.close()
    if answer is None:
        raise _silent(who, timeout_seconds)
    if isinstance(answer, Closed):
        raise answer.error or PeerGoneError(who=who, reason="it closed the stream without an answer")
    return bytes(answer)


def _silent(who: str, timeout_seconds: float) -> PeerTimeoutError:
    return PeerTimeoutError(who=who, reason=f"no answer within {timeout_seconds:g} s; {SILENT}")


def read_question(question: bytes) -> str:
    """Which service is meant?

    Raises:
        UndecodableDataError: this is no question.
    """
    try:
        return str(health_pb2.HealthCheckRequest.FromString(question).service)
    except DecodeError as error:
        raise UndecodableDataError(what="a health question", reason=str(error)) from error


def write_answer(is_serving: bool) -> bytes:
    """The answer in bytes."""
    response = health_pb2.HealthCheckResponse
    return bytes(response(status=response.SERVING if is_serving else response.NOT_SERVING).SerializeToString())
