"""The service of numbers.proto, as protoc generates it, with a server of grpc.aio for tests."""

import importlib
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest

from permitflow.stages.calls import Window

DEFINITION = Path(__file__).with_name("numbers.proto")
Handler = Callable[[Any, Any], Coroutine[Any, Any, Any]]


@cache
def generated() -> tuple[ModuleType, ModuleType]:
    """The messages, and the stub and servicer."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
        assert protoc.main(["protoc", f"-I{DEFINITION.parent}", *outputs, str(DEFINITION)]) == 0
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("numbers_pb2"), importlib.import_module("numbers_pb2_grpc")
        finally:
            sys.path.remove(folder)


def number(value: int, size_bytes: int = 0) -> Any:
    """A message, with so many bytes of padding."""
    return generated()[0].Number(value=value, padding=bytes(size_bytes))


@asynccontextmanager
async def serving(
    requests: Window | None = None, responses: Window | None = None, **handlers: Handler
) -> AsyncIterator[Any]:
    """A server with these handlers, by the names of their methods, and a stub that calls it at its ``address``.

    Args:
        requests: the server's window.
        responses: the client's.
        handlers: of (request or iterator of requests, context).
    """
    _, services = generated()
    servicer = type("Servicer", (services.NumbersServicer,), {k: staticmethod(v) for k, v in handlers.items()})
    server = grpc.aio.server(options=() if requests is None else requests.options)
    services.add_NumbersServicer_to_server(servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        options = () if responses is None else responses.options
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            stub = services.NumbersStub(channel)
            stub.address = f"127.0.0.1:{port}"
            yield stub
    finally:
        await server.stop(None)
