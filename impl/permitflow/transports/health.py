"""Asks an exchange whether it takes streams, by the standard health protocol of gRPC; for blocking callers."""

import grpc
from grpc_health.v1 import health_pb2

from permitflow.errors import PermitflowError, TransportError
from permitflow.transports.connection import CLIENT_OPTIONS, SERVICE
from permitflow.transports.status import error_from_status

__all__ = ["CHECK_METHOD", "LIVENESS", "READINESS", "is_serving", "read_answer"]

READINESS = ("", SERVICE)
"""The services that serve while the exchange takes streams: not while it loads its store, nor once it is to stop."""

LIVENESS = "liveness"
"""The service that serves for as long as the exchange answers at all."""

CHECK_METHOD = "/grpc.health.v1.Health/Check"


def is_serving(address: str, *, service: str = "", timeout_seconds: float = 5.0) -> bool:
    """Ask the exchange at ``address``.

    Args:
        address: host and port for gRPC.
        service: one of ``READINESS``, or ``LIVENESS``.
        timeout_seconds: the longest wait for an answer.

    Raises:
        PeerGoneError: nobody answers.
        PeerTimeoutError: nobody answers in time.
        TransportError: whoever answers is no exchange, or has no such service.
    """
    who = f"the exchange at {address}"
    with grpc.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(CHECK_METHOD)
        request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        try:
            answer = check(request, timeout=timeout_seconds)
        except grpc.RpcError as error:
            raise _typed(error, who) from None
    return read_answer(answer, who)


def _typed(error: grpc.RpcError, who: str) -> PermitflowError:
    assert isinstance(error, grpc.Call)  # what a call raises is the call
    return error_from_status(error.code(), error.details(), error.trailing_metadata() or (), who=who)


def read_answer(answer: bytes, who: str) -> bool:
    """Does it serve?

    Raises:
        TransportError: this is no answer.
    """
    try:
        status = health_pb2.HealthCheckResponse.FromString(answer).status
    except Exception as error:
        raise TransportError.of(what=f"{who} gave an answer that cannot be read", cause=error) from error
    return bool(status == health_pb2.HealthCheckResponse.SERVING)
