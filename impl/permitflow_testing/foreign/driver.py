"""A driver's process: what it is asked and what it answers, JSON objects in lines over its standard streams.

Every wait has a bound.  A driver that dies, writes what is not an answer, answers late or twice, or says nothing, is a
sentence.  Three threads serve the streams, so that a driver that does not read or write blocks nobody.
"""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from queue import SimpleQueue
from shutil import which
from time import monotonic
from typing import IO, Any, Final

from permitflow.errors import AlteredMessageError, InvalidParametersError, PermitflowError, shortened
from permitflow_testing.bounded import AdapterError

LIMIT_SECONDS = 10.0
"""The longest wait for an answer that needs nothing but the driver."""
LIMIT_MINUTES = 60.0
"""The longest time for the rules of an end."""
START_SECONDS = 30.0
"""The longest wait for the first answer: a virtual machine may have to start, and to compile."""
_END_SECONDS = 2.0
"""For a driver to end once its input has ended, and again once it was asked to."""
_MOST_BYTES = 1 << 20
_MOST_UNANSWERED = 3
"""After this many waits in vain, a driver is not asked any more."""
_WORDS = 4
"""Lines of its standard error that a message shows."""

OUTCOMES = ("ok", "refused", "cancelled", "error")
"""An answer has exactly one of these."""


class DriverError(AdapterError):
    """The driver does what no driver may do, whatever the rule."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))  # part of it may come from the driver


class BrokenWireRule(DriverError):
    """The driver's end breaks a rule of the wire."""

    def __init__(self, why: str | PermitflowError, last_words: str = "") -> None:
        if isinstance(why, AlteredMessageError):  # there is no network to blame
            why = f"a message of {why.size_bytes} bytes has the checksum {why.stated}, not {why.computed}"
        super().__init__(f"your driver's end breaks a rule of the wire: {why}{last_words}")


class OutOfTime(DriverError):
    """The driver is asked nothing more, because all together has taken too long."""

    breaks_rule = False
    ends_all = "your driver takes too long (--limit-minutes)"


class CallRefused(DriverError):
    """The driver's end refuses the call now, and has changed nothing."""


class CallFailed(DriverError):
    """The call has failed, the driver says."""


class CallCancelled(DriverError):
    """The call was cancelled, and has done nothing."""


@dataclass(eq=False)
class DriverRequest:
    """A request, and its answer once it is there."""

    number: int
    word: str
    answer: "Future[Mapping[str, Any]]" = field(default_factory=Future)
    asked_at: float = field(default_factory=monotonic)
    limit_seconds: float | None = None
    """How long a request was waited for in vain; None: it was answered."""

    @property
    def name(self) -> str:
        """For a sentence."""
        return f"{self.word!r} (request {self.number})"

    def result(self) -> Any:
        """What the driver has answered.

        Raises:
            CallRefused: it refuses.
            CallCancelled: the request was cancelled; a fault, unless somebody has cancelled it.
            CallFailed: it answers with an error.
            DriverError: it is gone.
        """
        answer = self.answer.result(0)
        if "refused" in answer:
            raise CallRefused(f"your driver refuses {self.word!r}: {answer['refused']}")
        if "cancelled" in answer:
            raise CallCancelled(f"your driver answers {self.name} as cancelled, although nobody has cancelled it")
        if "error" in answer:
            raise CallFailed(f"your driver answers {self.word!r} with an error: {answer['error']}")
        return answer["ok"]


class Driver:
    """A driver's process, started again after it was ended."""

    def __init__(
        self,
        command: str,
        *,
        limit_seconds: float = LIMIT_SECONDS,
        limit_minutes: float = LIMIT_MINUTES,
        end_seconds: float = _END_SECONDS,
    ) -> None:
        """Nothing is started yet.

        Args:
            command: as in a shell, but without one: a program and its arguments.
            limit_seconds: the longest wait for an answer that needs nothing but the driver.
            limit_minutes: the longest time for the rules of an end.
            end_seconds: for it to end once its input has ended, and again once it was asked to.

        Raises:
            InvalidParametersError: the command is empty, or there is no such program.
        """
        self.command = command
        self.limit_seconds, self._end_seconds = limit_seconds, end_seconds
        self._limit_minutes, self._until = limit_minutes, inf
        self.faults: dict[str, str] = {}
        """What it does wrong, whatever the run: a sentence for each kind."""
        try:
            self._program: Final = shlex.split(command)
        except ValueError as error:
            raise InvalidParametersError(name="--command", value=command, rule=f"must be a command: {error}") from error
        if not self._program or which(self._program[0]) is None:
            there = self._program[0] if self._program else ""
            raise InvalidParametersError(name="--command", value=there, rule="must begin with a program that is here")
        self._process: _Process | None = None
        self._numbers = 0
        self.unanswered = 0
        """Waits in vain."""
        self._is_silent = False

    def begin(self) -> None:
        """Begin with the rules of an end: no fault is known, and their time runs."""
        self.faults.clear()
        self.unanswered, self._until = 0, monotonic() + 60 * self._limit_minutes

    def ask(self, word: str, **content: Any) -> DriverRequest:
        """Ask for something; a driver that does not run is started.

        Raises:
            DriverError: it is gone, has broken the rules of this protocol, or the time for the rules is over.
        """
        if monotonic() > self._until:
            raise OutOfTime(f"the rules of this end have taken more than {self._limit_minutes:g} min")
        if self._process is None:
            self._process = _Process(self._program, self.note)
        self._numbers += 1
        request = DriverRequest(self._numbers, word)
        self._process.ask(request, {"id": request.number, "do": word, **content})
        return request

    async def answered(self, request: DriverRequest, seconds: float | None = None) -> Any:
        """Wait for an answer; without ``seconds`` for as long as it takes.

        A cancellation of this call cancels nothing at the driver.

        Raises:
            DriverError: none has come in time; or as ``DriverRequest.result`` raises it.
        """
        answer = asyncio.wrap_future(request.answer)
        # It may fail when nobody waits any more.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(answer)
        except TimeoutError:
            assert seconds is not None
            raise self._unanswered(request, seconds) from None
        return request.result()

    async def told(self, word: str, *, seconds: float | None = None, **content: Any) -> Any:
        """Ask, and wait for the answer; by default for ``limit_seconds``."""
        return await self.answered(self.ask(word, **content), self.limit_seconds if seconds is None else seconds)

    def told_at_once(self, word: str, seconds: float, **content: Any) -> Any:
        """Ask, and block until the answer is there."""
        request = self.ask(word, **content)
        try:
            request.answer.result(seconds)
        except TimeoutError:
            raise self._unanswered(request, seconds) from None
        return request.result()

    def _unanswered(self, request: DriverRequest, seconds: float) -> DriverError:
        request.limit_seconds = seconds
        if self._process is not None and self._process.error is not None:
            return self._process.error
        is_first = request.word == "hello"  # the mistake of many: the answer waits in a buffer
        hint = "; each answer must be written at once, without a buffer" if is_first else ""
        return self.in_vain(f"your driver has not answered {request.name}", seconds, hint)

    def in_vain(self, what: str, seconds: float, hint: str = "") -> DriverError:
        """What to raise after a wait: the process is not asked any more, and after some waits none is."""
        self._is_silent = True
        self.unanswered += 1
        problem = DriverError(f"{what} within {seconds:g} s{self.last_words()}{hint}")
        if self.is_given_up:
            problem.ends_all = "your driver keeps the kit waiting"
        return problem

    @property
    def is_given_up(self) -> bool:
        """Has it kept the kit waiting so often, or for so long, that it is not asked any more?"""
        return self.unanswered >= _MOST_UNANSWERED or monotonic() > self._until

    def last_words(self) -> str:
        """A line that it has begun, and the end of its standard error, to append to a sentence."""
        return "" if self._process is None else self._process.last_words()

    @property
    def error(self) -> DriverError | None:
        """Why this process cannot be asked any more."""
        return None if self._process is None else self._process.error

    @property
    def is_usable(self) -> bool:
        """Does the process run, as far as is known, answer, and keep the rules of this protocol?"""
        return self._process is not None and self._process.error is None and not self._is_silent

    def note(self, kind: str, fault: str) -> None:
        """Remember what it does wrong; only the first fault of each kind."""
        self.faults.setdefault(kind, shortened(fault))

    def end(self) -> None:
        """End the process and all that it has started; the next request starts another one."""
        process, self._process, self._is_silent = self._process, None, False
        if process is not None:
            process.end(self._end_seconds)


class _Process:
    """One process of a driver."""

    def __init__(self, program: Sequence[str], note: Callable[[str, str], None]) -> None:
        self.error: DriverError | None = None
        self._note = note
        self._lock = threading.Lock()
        self._open: dict[int, DriverRequest] = {}
        self._answered: dict[int, DriverRequest] = {}
        self._words: deque[str] = deque(maxlen=_WORDS)
        self._begun = b""
        """Of its standard output: what follows the last end of a line."""
        self._is_open = True
        """Its standard output; perhaps of another process that it has started."""
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        # Ctrl-C interrupts the main thread only, so no process is started that nobody knows.
        with _starting(), ThreadPoolExecutor(1) as starter:
            starter.submit(self._start, program).result()
        streams = self._process.stderr, self._process.stdin, self._process.stdout
        self._threads = [  # the reader of answers may wait for the listener
            threading.Thread(target=target, args=(stream,), daemon=True, name=target.__name__)
            for target, stream in zip((self._listen, self._write, self._read), streams, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _start(self, program: Sequence[str]) -> None:
        self._process = subprocess.Popen(  # its own group, so that it and its children end together
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        _running[self] = None

    def ask(self, request: DriverRequest, content: Mapping[str, Any]) -> None:
        with self._lock:
            if self.error is not None:
                raise self.error
            self._open[request.number] = request
        self._lines.put(json.dumps(content).encode() + b"\n")

    def last_words(self) -> str:
        begun = f"; its last line has no end: {_part(self._begun)}" if self._begun else ""
        if (code := self._process.poll()) is not None and self._is_open:
            begun += (
                f"; it has ended with {_code_in_words(code)}, and what it has started keeps its standard output open"
            )
        return begun + (f"; its standard error ends with: {' / '.join(self._words)}" if self._words else "")

    # Threads, each of which closes its stream.

    def _write(self, stream: IO[bytes]) -> None:
        with suppress(OSError, ValueError):  # the reader says why it does not read
            while (line := self._lines.get()) is not None:
                stream.write(line)
                stream.flush()
        with suppress(OSError):
            stream.close()

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(_MOST_BYTES):
                if words := line.decode(errors="replace").strip():
                    self._words.append(shortened(words, 200))

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            problem = ""
            while not problem and (data := os.read(stream.fileno(), _MOST_BYTES)):
                *lines, self._begun = (self._begun + data).split(b"\n")
                if len(self._begun) >= _MOST_BYTES:
                    lines, self._begun = [*lines, self._begun[:_MOST_BYTES]], b""
                problem = next(filter(None, map(self._take, filter(bytes.strip, lines))), "")
            self._is_open = False
            self._fail(problem or self._why_gone())

    def _take(self, line: bytes) -> str:
        """Take an answer; or say why it is none."""
        if len(line) >= _MOST_BYTES:
            return _no_answer(line, "a line has at most a MiB")
        try:
            answer = json.loads(line)
        except UnicodeDecodeError:
            return _no_answer(line, "it is not UTF-8")
        except ValueError:
            return _no_answer(line, "it is not JSON")
        except RecursionError:
            return _no_answer(line, "it is nested too deeply")
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
            return _no_answer(line, "it is not a JSON object with a whole number as 'id'")
        if len([name for name in OUTCOMES if name in answer]) != 1:
            return _no_answer(line, f"an answer has one of {', '.join(OUTCOMES)}")
        number = answer["id"]
        with self._lock:
            request = self._open.pop(number, None)
            if request is None and (before := self._answered.get(number)) is not None:
                self._note("twice", f"your driver answers {before.name} twice")
                return ""
            if request is None:
                return _no_answer(line, f"nobody has asked a request {number}")
            self._answered[number] = request
            if len(self._answered) > 1_000:
                del self._answered[next(iter(self._answered))]
        if request.limit_seconds is not None:
            late = f"after {monotonic() - request.asked_at:.1f} s; its limit is {request.limit_seconds:g} s"
            self._note("late", f"your driver answers {request.word!r} late, {late}")
        request.answer.set_result(answer)
        return ""

    def _why_gone(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._threads[0].join(_END_SECONDS)
        code = self._process.returncode
        how = "has closed its standard output" if code is None else "has ended with " + _code_in_words(code)
        with self._lock:
            asked = list(self._open.values())
        before = f", asked for {asked[0].name}" if asked else ""
        return f"{how}{before}{self.last_words()}"

    def _fail(self, problem: str) -> None:
        error = DriverError(f"your driver {problem}")
        with self._lock:
            self.error = self.error or error
            left, self._open = list(self._open.values()), {}
        for request in left:
            request.answer.set_exception(error)

    # The end.

    def end(self, seconds: float) -> None:
        """End it: its input ends; then it is asked to, and then it is killed, and its whole group with it."""
        self._lines.put(None)
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self.signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                break
        self.signal(signal.SIGKILL)  # what it has started
        self._process.wait()
        for thread in self._threads:  # what it has started in a session of its own may hold a pipe for ever
            thread.join(_END_SECONDS)
        _running.pop(self, None)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


_running: dict[_Process, None] = {}


def kill_all() -> None:
    """Kill every driver at once, for a command that must end."""
    for process in list(_running):
        process.signal(signal.SIGKILL)


@contextmanager
def _starting() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DriverError(f"your driver cannot be started: {error}") from error


def _no_answer(line: bytes, why: str) -> str:
    what = f"writes to its standard output what is not an answer, {_part(line)}"
    return f"{what}: {why}; remarks belong on its standard error"


def _part(line: bytes) -> str:
    return repr(shortened(line.decode(errors="replace").strip(), 100))


def _code_in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
