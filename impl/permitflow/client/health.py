"""Asks an exchange whether it takes streams, with the standard health protocol of gRPC; for blocking callers."""

from collections.abc import Callable, Coroutine
from functools import partial

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from permitflow.carriers.addresses import Scheme, parsed
from permitflow.carriers.connection import CLIENT_OPTIONS, HEALTH_CHECK, SERVICE
from permitflow.carriers.grpc_calls import credentials, named
from permitflow.carriers.security import Security
from permitflow.carriers.tls import diagnosed
from permitflow.client.background import background
from permitflow.errors import (
    InvalidParametersError,
    PeerTimeoutError,
    PermitflowError,
    TlsError,
    UndecodableDataError,
)
from permitflow.wire.wire_errors import SILENT, error_from_status

READINESS = ("", SERVICE)
"""The services that serve while the exchange takes streams: not while it loads its store or stops."""

LIVENESS = "liveness"
"""The service that serves for as long as the exchange answers at all."""


def is_serving(
    address: str, *, service: str = "", timeout_seconds: float = 5.0, security: Security | None = None
) -> bool:
    """Ask the exchange at ``address``.

    Args:
        address: host and port.
        service: one of ``READINESS``, or ``LIVENESS``.
        timeout_seconds: the longest wait for an answer.
        security: TLS; the question needs no token.

    Raises:
        TlsError: one of the two ends does not trust the other, or only one speaks TLS.
        PeerGoneError: no server answers.
        PeerTimeoutError: no server answers in time.
        InvalidParametersError: the address is malformed, or one without gRPC, which answers no health questions; or
            ``Security.require_trust`` raises it.
        TransportError: the peer that answers is not an exchange, or has no such service.
        UndecodableDataError: the answer is malformed.
    """
    if parsed(address).scheme is not Scheme.GRPC:
        rule = "must be host:port, because an exchange answers health questions over gRPC only"
        raise InvalidParametersError(name="address", value=address, rule=rule)
    who = f"the exchange at {address}"
    question = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    with _channel(address, security) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
        try:
            answer = check(question, timeout=timeout_seconds)
        except grpc.RpcError as error:
            raise _typed(error, who, timeout_seconds, partial(diagnosed, address, security, who=who)) from None
    try:
        status = health_pb2.HealthCheckResponse.FromString(answer).status
    except DecodeError as error:
        raise UndecodableDataError(what="the answer to a health question", reason=str(error)) from error
    return bool(status == health_pb2.HealthCheckResponse.SERVING)


def _channel(address: str, security: Security | None) -> grpc.Channel:
    if security is not None:
        security.require_trust()
    if security is None or security.ca is None:
        return grpc.insecure_channel(address, options=CLIENT_OPTIONS)
    return grpc.secure_channel(address, credentials(security), options=(*CLIENT_OPTIONS, *named(security)))


def _typed(
    error: grpc.RpcError,
    who: str,
    timeout_seconds: float,
    why_not: Callable[..., Coroutine[object, object, TlsError | None]],
) -> PermitflowError:
    assert isinstance(error, grpc.Call)  # a call raises itself
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        refusal = background().run(partial(why_not, seconds=timeout_seconds))
        if refusal is not None:
            return refusal
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return PeerTimeoutError(who=who, reason=f"no answer within {timeout_seconds:g} s; {SILENT}")
    return error_from_status(error.code().name, error.details(), error.trailing_metadata() or (), who=who)
