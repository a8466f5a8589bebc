"""The generated module of samples.proto, which workers can import, functions of a user, and a server for tests."""

import importlib
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    protoc: Any = importlib.import_module("grpc_tools.protoc")  # untyped
except ImportError:
    import pytest  # workers of Spark do not wait for it

    pytest.skip("grpcio-tools is not installed", allow_module_level=True)
_FOLDER = Path(__file__).parent
_SERVICE = "permitflow.tests.Samples"


def _generated() -> Any:
    includes = [f"-I{_FOLDER}", f"-I{Path(protoc.__file__).with_name('_proto')}"]
    with tempfile.TemporaryDirectory() as folder:
        assert protoc.main(["protoc", *includes, f"--python_out={folder}", str(_FOLDER / "samples.proto")]) == 0
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("samples_pb2")
        finally:
            sys.path.remove(folder)


_pb2 = _generated()
DESCRIPTOR = _pb2.DESCRIPTOR
"""As in a generated module."""
Query, Received, Sample, Score = _pb2.Query, _pb2.Received, _pb2.Sample, _pb2.Score


# A user's functions.


def two_rows(sample: Any) -> list[tuple[int, str]]:
    return [(sample.number, "once"), (sample.number, "again")]


def two_scores(score: Any) -> list[tuple[int, str]]:
    return [(score.number, "once"), (score.number, "again")]


def no_row(given: Any) -> None:
    """A function that returns nothing."""


def short_rows(sample: Any) -> list[tuple[int]]:
    return [(sample.number,)]


async def asynchronous(row: dict[str, Any]) -> Any:
    return Sample(number=row["number"])


def thirds_fail(sample: Any) -> bytes:
    if sample.number == 3:
        raise LookupError("3 cannot be serialized")
    return bytes(sample.SerializeToString())


def failing(row: dict[str, Any]) -> Any:
    raise LookupError(f"no sample for {row}")


def named(row: dict[str, Any]) -> Any:
    return Sample(number=row["id"], text=f"number {row['id']}")


# ... without protobuf.


def serializer(count: str) -> bytes:
    return bytes(Query(first=0, count=int(count), size_bytes=0).SerializeToString())


def deserializer(message: bytes) -> bytes:
    return message


def rows(message: bytes) -> dict[str, int]:
    return {"number": Sample.FromString(message).number}


def channel(address: str, options: Any) -> Any:
    import grpc

    return grpc.aio.insecure_channel(address, options=options)


class Service:
    """Counts what it has given and recorded; the producer's lead over the consumer."""

    def __init__(self, *, window: int = 5, slow_seconds: float = 0.0, answer_after: int | None = None) -> None:
        self.window = window
        self.slow_seconds = slow_seconds
        self.answer_after = answer_after
        self.fail_after: int | None = None
        self.fails_once = False
        self.dies_after: int | None = None
        self.answers_each, self.answers_late = 1, 0
        """Rate answers each request so often, and one that comes now when so many more have come."""
        self.open_calls = 0
        """Of Rate."""
        self.calls = self.given = self.consumed = self.most_ahead = 0
        self.recorded: list[Any] = []
        self.attempts: list[dict[str, Any]] = []
        self.address = ""

    def notice(self) -> None:
        self.most_ahead = max(self.most_ahead, self.given - self.consumed)

    async def watch(self, query: Any, context: Any) -> None:
        import grpc

        self.calls += 1
        for number in range(query.first, query.first + query.count):
            if self.fail_after is not None and number >= self.fail_after:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more samples")
            self.given += 1
            self.notice()
            await context.write(Sample(number=number, raw=bytes(query.size_bytes)))

    async def record(self, samples: AsyncIterator[Any], context: Any) -> Any:
        import asyncio

        self.calls += 1
        self.attempts.append(dict(context.invocation_metadata()))
        received = 0
        async for sample in samples:
            received += 1
            self.recorded.append(sample)
            self.consumed += 1
            await asyncio.sleep(self.slow_seconds)
            if received == self.answer_after:
                break
        return Received(samples=received)

    async def rate(self, samples: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        self.calls += 1
        self.attempts.append(dict(context.invocation_metadata()))
        self.open_calls += 1
        try:
            async for score in self.rated(samples, context):
                yield score
        finally:
            self.open_calls -= 1

    async def rated(self, samples: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        import asyncio

        import grpc

        waiting, received = list[Any](), 0
        async for sample in samples:
            received += 1
            self.recorded.append(sample)
            if received == self.answer_after:
                return
            if received == self.dies_after:
                os._exit(1)
            fails = not (self.fails_once and self.calls > 1)
            if fails and self.fail_after is not None and received > self.fail_after:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more scores")
            await asyncio.sleep(self.slow_seconds)
            waiting.append(sample)
            if len(waiting) > self.answers_late:
                for score in self.scores(waiting.pop(0)):
                    yield score
        for sample in waiting:
            for score in self.scores(sample):
                yield score

    def scores(self, sample: Any) -> Iterator[Any]:
        for _ in range(self.answers_each):
            self.given += 1
            self.notice()
            yield Score(number=sample.number, score=sample.number / 2)

    @contextmanager
    def served(self) -> Iterator["Service"]:
        """In the loop of this process's blocking clients."""
        import grpc

        from permitflow.client.background import background
        from permitflow.stages.calls import Window

        handlers = {
            "Watch": grpc.unary_stream_rpc_method_handler(
                self.watch, request_deserializer=Query.FromString, response_serializer=Sample.SerializeToString
            ),
            "Record": grpc.stream_unary_rpc_method_handler(
                self.record, request_deserializer=Sample.FromString, response_serializer=Received.SerializeToString
            ),
            "Rate": grpc.stream_stream_rpc_method_handler(
                self.rate, request_deserializer=Sample.FromString, response_serializer=Score.SerializeToString
            ),
        }

        async def start() -> "grpc.aio.Server":
            server = grpc.aio.server(options=Window(self.window).options)
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
            self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            return server

        loop = background()
        server = loop.run(start)
        try:
            yield self
        finally:
            loop.run(lambda: server.stop(None))

    def options(self, method: str, **more: str) -> dict[str, str]:
        """Of a job."""
        shared = {"address": self.address, "method": f"{_SERVICE}/{method}"}
        return {**shared, "module": "tests.support.samples_service", **more}


def serve_until_killed(**settings: Any) -> None:
    """Serve in a process of its own, which prints its address."""
    service = Service()
    vars(service).update(settings)
    with service.served():
        print(service.address, flush=True)
        threading.Event().wait()
