"""What a demo's process is told on its command line, how it reports, and how it ends when it is asked to."""

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

from permitflow.carriers.addresses import parsed
from permitflow.errors import InvalidOptionError, InvalidParametersError, PermitflowError

Address = tuple[str, int]


def report(event: str, **facts: object) -> None:
    """Print an event, for the process that has started this one."""
    print(json.dumps({"event": event, **facts}), flush=True)


def address_of(text: str) -> Address:
    """The address in ``host:port``.

    Raises:
        InvalidOptionError: the text is no such address.
    """
    try:
        is_tcp, host, port = parsed(text, least_port=0)
    except InvalidParametersError as error:
        raise InvalidOptionError(option="address", value=text, reason=error.rule) from None
    if is_tcp:
        raise InvalidOptionError(option="address", value=text, reason="must be host:port, without tcp://")
    return host, port


def text_of(address: Address) -> str:
    """``host:port``."""
    return f"{address[0]}:{address[1]}"


@dataclass(frozen=True, kw_only=True)
class ChildSettings:
    """Settings that travel as JSON."""

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From the command line.

        Raises:
            InvalidOptionError: it is not what ``to_json`` makes.
        """
        try:
            return cls(**cls._values(json.loads(text)))
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidOptionError):
                raise
            raise InvalidOptionError(option="SETTINGS", value=text, reason=f"are no settings ({error})") from error

    @classmethod
    def _values(cls, found: dict[str, Any]) -> dict[str, Any]:
        """The values of all fields; JSON has lost the types of some."""
        return found

    @classmethod
    def from_command_line(cls) -> Self:
        """The settings of this process, its last argument; ends the process if there is no such argument."""
        if len(sys.argv) < 2:
            sys.exit(f"{sys.argv[0]}: needs its settings as JSON")
        return cls.from_json(sys.argv[-1])


@contextmanager
def asked_to_end() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set while the block runs; a second signal cancels the block."""
    ending, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # this is one

    def end() -> None:
        if ending.is_set():
            task.cancel()
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    yield ending


async def until_asked_to_end(work: Coroutine[object, object, None]) -> None:
    """Do work that ends by itself only if it fails, until SIGTERM or SIGINT comes: then it is cancelled."""
    with asked_to_end() as ending:
        working, asked = asyncio.create_task(work), asyncio.create_task(ending.wait())
        try:
            await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            working.cancel()
            await asyncio.wait({working})
        if not working.cancelled():
            working.result()


def run_process(main: Coroutine[object, object, None]) -> None:
    """Run a process to its end; an error of the library becomes one line on its standard error."""
    try:
        asyncio.run(main)
    except PermitflowError as error:
        sys.exit(f"permitflow.errors.{type(error).__name__}: {error}")
    except asyncio.CancelledError:
        sys.exit("it was told twice to end, and has ended at once")
