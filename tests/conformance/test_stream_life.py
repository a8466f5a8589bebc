"""The model leads both ends of a stream, from the request to the last word: sessions, half-closes, time-outs."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.carriers.carrier import Carrier, Listener
from permitflow.client.remote_end import BREAK_OFF_SECONDS, AcceptorTerms, RemoteEnd
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    EndOfStream,
    PeerGoneError,
    PermitflowError,
    WouldBlock,
)
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import (
    Abort,
    Agreement,
    Announcement,
    Cancel,
    Chunks,
    Data,
    End,
    Ended,
    EndOutcome,
    Failure,
    Feedback,
    Get,
    Put,
    ReturnedBytes,
)
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.session import DOWNSTREAM, UPSTREAM, DownstreamSession, UpstreamSession
from permitflow.stream.session import State as Session
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Buffer
from permitflow.wire.codec import EncodedChunks, decode_downstream, decode_upstream, encode_downstream, encode_upstream
from permitflow_model.kernel.queue import Fifo
from permitflow_model.stream_life import (
    SYSTEM,
    Downstream,
    Frame,
    Life,
    Parameters,
    State,
    Upstream,
    Word,
    downstream_takes,
    upstream_takes,
)
from permitflow_testing.moves import ActionRefused, Divergence, Move, moves_of, require, step

BATCH = pa.record_batch({"n": pa.array([1, 2], pa.int64())})
ROWS = BATCH.num_rows
CODEC = BatchCodec(BATCH.schema)
UNCHECKED = AcceptorTerms(checksums=False)
LIVES: dict[Session, Life] = {
    Session.AWAITING_GET: "waiting",
    Session.AWAITING_PUT: "waiting",
    Session.DECIDING: "deciding",
    Session.AWAITING_AGREEMENT: "asking",
    Session.OPEN: "open",
    Session.ENDED: "ended",
    Session.FAILED: "broken",
}
WORDS: dict[type, Word] = {
    Get: "request",
    Put: "request",
    Agreement: "agreement",
    EncodedChunks: "messages",
    End: "end",
    Abort: "abort",
    Feedback: "permits",
    Cancel: "cancel",
    Failure: "failure",
}
FAULTS = ("BreakOffUpstream", "BreakOffDownstream", "LeaveUpstream", "LeaveDownstream", "Cut")
NOT_LED = ("ComeAgain", "GiveUpUpstream", "GiveUpDownstream")
"""The carrier does this; test_resumption.py leads it."""


class Clock(asyncio.SelectorEventLoop):
    """The loop of one end; its time stands still until the end's patience is to end."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this, and all that follows at once."""

        async def all_of_it() -> None:
            await work
            for _ in range(12):
                await asyncio.sleep(0)

        self.run_until_complete(all_of_it())


@cache
def clock(end: str) -> Clock:
    return Clock()


def frames_of(message: bytes, is_upstream: bool) -> Sequence[Any]:
    return decode_upstream(message) if is_upstream else decode_downstream(message, PERMITS)


class Wire(Carrier):
    """One end's half of the connection: what it writes waits, frame by frame, until it is to arrive."""

    def __init__(self, *, is_upstream: bool, is_dialler: bool) -> None:
        self.is_upstream, self.is_dialler = is_upstream, is_dialler
        self.listener: Listener | None = None
        self.written: deque[tuple[Frame, bytes]] = deque()
        self.is_read = True
        self.is_stopped = self.has_answered = False

    def listen(self, listener: Listener) -> None:
        self.listener = listener

    def pause(self) -> None:
        raise AssertionError("no end pauses its stream")

    def resume(self) -> None:
        raise AssertionError("no end pauses its stream")

    def write(self, message: Sequence[Buffer]) -> bool:
        whole = b"".join(message)
        body, no_checksum = whole[:-9], whole[-9:]
        frames = frames_of(body, self.is_upstream)
        for frame in frames:
            if isinstance(frame, ReturnedBytes) and not self.is_read:
                continue
            if isinstance(frame, ReturnedBytes):  # it travels with the permits
                last, so_far = self.written.pop()
                self.written.append((last, so_far[:-9] + encode_downstream([frame], PERMITS)[0][0] + no_checksum))
                continue
            (alone,) = encode_upstream([frame]) if self.is_upstream else encode_downstream([frame], PERMITS)
            self.put(described(frame), whole if len(frames) == 1 else b"".join(alone) + no_checksum)
        return True

    def put(self, frame: Frame, message: bytes = b"") -> None:
        self.has_answered |= frame.word in ("consumed", "cancelled")
        if self.is_read:
            self.written.append((frame, message))

    def half_close(self) -> None:
        if self.is_dialler:
            self.put(Frame("close", 0))

    async def stop(self) -> None:
        if self.is_dialler and not self.is_stopped:
            self.put(Frame("gone", 0))
        self.is_stopped = True


def described(frame: Any) -> Frame:
    if isinstance(frame, Ended):
        return Frame("consumed" if frame.outcome is EndOutcome.CONSUMED else "cancelled", 0)
    count = len(frame.rows) if isinstance(frame, EncodedChunks) else 0
    return Frame(WORDS[type(frame)], frame.content.rows // ROWS if isinstance(frame, Feedback) else count)


class DrivenStream:
    """A real sender and a real receiver, each in a loop of its own, and what is on its way between them."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.flow = ChannelParameters(row_permits=parameters.window * ROWS, permit_batch=1, max_chunk_cost=ROWS)
        dials = parameters.upstream_dials
        self.down, self.up = Wire(is_upstream=True, is_dialler=dials), Wire(is_upstream=False, is_dialler=not dials)
        self.offered = self.consumed = 0
        self.is_cut = self.has_heard_close = self.has_left = False
        self.sends: list[asyncio.Task[None]] = []
        self.ending: asyncio.Task[EndOutcome] | None = None
        self.upstream = UpstreamSession[object](
            Put(PROTOCOL_VERSION, "orders", schema=CODEC.schema_bytes) if dials else None
        )
        self.downstream = self.make_downstream(None if dials else Get(PROTOCOL_VERSION, "orders"))
        clock("upstream").do(self.start_sender())
        clock("downstream").do(self.start_receiver())

    def make_downstream(self, get: Get | None) -> DownstreamSession[object]:
        return DownstreamSession(get)

    async def start_sender(self) -> None:
        self.sender = RemoteSender(self.upstream, self.down, terms=UNCHECKED)
        self.sending = asyncio.create_task(self.carry(self.sender, self.down))

    async def start_receiver(self) -> None:
        self.receiver = RemoteReceiver(self.downstream, self.up, terms=UNCHECKED)
        self.receiving = asyncio.create_task(self.carry(self.receiver, self.up))

    async def carry(self, end: RemoteEnd[Any], wire: Wire) -> bool:
        """Did it end without an error?  An acceptor has the last word."""
        try:
            await end.run()
            word: Word = "ok"
        except (PermitflowError, asyncio.CancelledError):
            word = "error"
        if not wire.is_dialler:
            wire.put(Frame(word, 0))
        other = self.up if wire is self.down else self.down
        other.is_read = False
        other.written.clear()
        return word == "ok"

    def compare_words(self, state: State) -> None:
        """What the applications are told is what the model says."""
        told = self.ending.exception() or self.ending.result() if self.ending and self.ending.done() else None
        if state.upstream.life == "closed" and state.upstream.has_ended and self.ending is not None:
            assert isinstance(told, EndOutcome)
            assert told.name.lower() == state.upstream.outcome
        elif self.ending is not None and state.upstream.life in ("breaking", "broken", "failed"):
            assert isinstance(told, PermitflowError)
        elif self.ending is not None and state.upstream.has_ended:
            assert told is None
        downstream = state.downstream
        if not self.has_agreed or downstream.inbox:
            return
        with pytest.raises(PermitflowError) as refused:
            clock("downstream").do(self.receive())
        assert isinstance(refused.value, self.word_for(downstream)), state

    @property
    def has_agreed(self) -> bool:
        with suppress(PermitflowError):
            return bool(self.downstream.agreement)
        return False

    async def receive(self) -> None:
        require(self.has_agreed)  # a client has no receiver before
        self.receiver.receive_nowait()

    def word_for(self, downstream: Downstream) -> type[PermitflowError]:
        if self.has_left or downstream.is_cancelled:
            return ChannelClosedError
        if downstream.end != "none":
            return EndOfStream if downstream.end == "end" else ChannelAbortedError
        return WouldBlock if downstream.life == "open" else PermitflowError

    def dispose(self) -> None:
        for end, run in ((self.sender, self.sending), (self.receiver, self.receiving)):
            clock("upstream" if end is self.sender else "downstream").do(self.dispose_of(end, run))

    async def dispose_of(self, end: RemoteSender | RemoteReceiver, run: "asyncio.Task[bool]") -> None:
        end.close()
        await asyncio.wait([run])
        if end is self.sender and (tasks := [*self.sends, *([] if self.ending is None else [self.ending])]):
            await asyncio.wait(tasks)
            for task in tasks:
                task.exception()

    # The applications.

    def attempt(self, end: str, work: Coroutine[Any, Any, None]) -> None:
        """Refused is what changes nothing."""
        before = self.observe()
        try:
            clock(end).do(work)
        except PermitflowError as error:
            raise ActionRefused(str(error)) from error
        if self.observe() == before:
            raise ActionRefused

    def agree(self) -> None:
        async def agree() -> None:
            end: RemoteEnd[Any] = self.receiver if self.parameters.upstream_dials else self.sender
            end.accept(self.flow, schema=BATCH.schema, stream="orders#1")

        self.attempt("downstream" if self.parameters.upstream_dials else "upstream", agree())

    def offer(self) -> None:
        async def send() -> None:
            self.sends.append(asyncio.create_task(self.sender.send(BATCH)))

        self.offered += 1
        clock("upstream").do(send())

    def end_stream(self) -> None:
        async def end() -> None:
            task = asyncio.create_task(self.sender.end())
            await asyncio.sleep(0)
            if not self.upstream.is_ending or (self.ending is not None and not task.done()):
                task.cancel()
                await asyncio.wait([task])
            elif self.ending is None:
                self.ending = task

        require(not self.upstream.is_ending)
        self.attempt("upstream", end())

    def abort(self) -> None:
        async def abort() -> None:
            self.sender.abort("it gives up")

        self.attempt("upstream", abort())

    def consume(self) -> None:
        self.attempt("downstream", self.receive())
        self.consumed += 1

    def cancel(self) -> None:
        async def cancel() -> None:
            require(self.has_agreed)
            self.receiver.cancel_nowait("it needs no more")

        self.attempt("downstream", cancel())

    def break_off(self, end: RemoteEnd[Any], of: str) -> None:
        async def break_off() -> None:
            end.break_off(PeerGoneError(who="this end", reason="something is wrong"))

        self.attempt(of, break_off())

    def break_off_upstream(self) -> None:
        self.break_off(self.sender, "upstream")

    def break_off_downstream(self) -> None:
        self.break_off(self.receiver, "downstream")

    def leave(self, end: RemoteEnd[Any], of: str) -> None:
        async def close() -> None:
            end.close()

        self.attempt(of, close())

    def leave_upstream(self) -> None:
        require(not self.sending.done())
        self.leave(self.sender, "upstream")

    def leave_downstream(self) -> None:
        require(not self.receiving.done())  # what came before it failed may still be dropped
        self.leave(self.receiver, "downstream")
        self.has_left = True

    # The connection, and time.

    def cut(self) -> None:
        require(not self.is_cut and (self.up.is_read or self.down.is_read))
        self.is_cut = True
        for wire in (self.down, self.up):
            wire.written.clear()
            wire.put(Frame("gone", 0))
            wire.is_read = False

    def lose_patience(self, end: RemoteEnd[Any], of: str) -> None:
        require(end.is_breaking_off)

        async def wait() -> None:
            clock(of).now += BREAK_OFF_SECONDS

        self.attempt(of, wait())

    def lose_patience_upstream(self) -> None:
        self.lose_patience(self.sender, "upstream")

    def lose_patience_downstream(self) -> None:
        self.lose_patience(self.receiver, "downstream")

    def hear(self, wire: Wire, listener: Listener | None, of: str) -> None:
        require(bool(wire.written))
        frame, message = wire.written.popleft()
        assert listener is not None

        async def hear() -> None:
            if message:
                listener.on_message(message, False)
            elif frame.word in ("close", "ok"):
                listener.on_end()
            else:
                listener.on_error(PeerGoneError(who="the other end", reason=frame.word))

        clock(of).do(hear())
        self.has_heard_close |= wire is self.down and frame.word == "close" and not self.receiving.done()

    def hear_upstream(self) -> None:
        self.hear(self.up, self.down.listener, "upstream")

    def hear_downstream(self) -> None:
        self.hear(self.down, self.up.listener, "downstream")

    def done(self) -> None:
        require(self.sending.done() and self.receiving.done() and not self.in_inbox)

    # What can be seen.

    @property
    def in_inbox(self) -> int:
        if isinstance(self.downstream.end, Abort):
            return 0
        with suppress(PermitflowError):
            return self.downstream.inbound.unconsumed
        return 0

    def life(self, session: Any, end: RemoteEnd[Any], run: "asyncio.Task[bool]") -> Life:
        if run.done():
            return "closed" if run.result() else "failed"
        return "breaking" if end.is_breaking_off else LIVES[session.state]

    def observe(self) -> State:
        sent = returned = came = 0
        with suppress(PermitflowError):
            sent = self.upstream.outbound.totals.chunks
            returned = sent - self.upstream.outbound.rows_held // ROWS
        with suppress(PermitflowError):
            came = self.downstream.inbound.totals.chunks
        outcome, ended = self.upstream.outcome, self.downstream.end
        return State(
            Upstream(
                life=self.life(self.upstream, self.sender, self.sending),
                offered=self.offered,
                waiting=sum(not task.done() for task in self.sends),
                sent=sent,
                returned=returned,
                has_ended=self.upstream.is_ending,
                outcome="none" if outcome is None or not self.upstream.is_ending else outcome.name.lower(),  # type: ignore[arg-type]
            ),
            Downstream(
                life=self.life(self.downstream, self.receiver, self.receiving),
                came=came,
                inbox=self.in_inbox,
                consumed=self.consumed,
                is_cancelled=self.downstream.is_cancelled,
                end="none" if ended is None else "end" if isinstance(ended, End) else "abort",
                has_answered=self.up.has_answered,
                has_heard_close=self.has_heard_close,
            ),
            to_downstream=Fifo(frame for frame, _ in self.down.written),
            to_upstream=Fifo(frame for frame, _ in self.up.written),
            is_cut=self.is_cut,
        )


Path = Sequence[Move]


def graph_of(parameters: Parameters) -> dict[State, list[tuple[Move, State]]]:
    """Each state with the steps out of it that are led."""
    moves = [move for move in moves_of(SYSTEM, parameters) if move.action not in NOT_LED]
    graph: dict[State, list[tuple[Move, State]]] = {}
    todo = [SYSTEM.initial(parameters)]
    while todo:
        state = todo.pop()
        if state not in graph:
            graph[state] = [
                (move, SYSTEM.perform(move.action, state, parameters, *move.arguments))
                for move in moves
                if SYSTEM.is_enabled(move.action, state, parameters, *move.arguments)
            ]
            todo += [after for _, after in graph[state]]
    return graph


def each_path(parameters: Parameters, random: Random) -> Iterator[Path]:
    """Runs that take each step at least once: the shortest one to each state, and on by steps that no run has taken."""
    graph, begin = graph_of(parameters), SYSTEM.initial(parameters)
    left = {state: [edge for edge in edges if edge[1] != state] for state, edges in graph.items()}
    for edges in left.values():
        random.shuffle(edges)
    shortest: dict[State, list[Move]] = {begin: []}
    todo = deque([begin])
    while todo:
        state = todo.popleft()
        for move, after in graph[state]:
            if after not in shortest:
                shortest[after] = [*shortest[state], move]
                todo.append(after)
    for state, moves in shortest.items():
        while left[state]:
            run, at = [*moves], state
            while left[at]:
                move, at = left[at].pop()
                run.append(move)
            yield run


def led(parameters: Parameters, every: int, make: Callable[[Parameters], DrivenStream] = DrivenStream) -> Counter[str]:
    """Lead real ends through one of so many runs; what they refuse is tried in each state once."""
    done, tried = Counter[str](), set[State]()
    untried = ("Offer", "Done", *NOT_LED, *(() if parameters.faults else FAULTS))  # bounds of the model, and no rules
    moves = [move for move in moves_of(SYSTEM, parameters) if move.action not in untried]
    for path in islice(each_path(parameters, Random(0)), None, None, every):
        driven, state = make(parameters), SYSTEM.initial(parameters)
        try:
            for move in path:
                if state not in tried:
                    tried.add(state)
                    driven.compare_words(state)
                    for other in moves:
                        if not SYSTEM.is_enabled(other.action, state, parameters):
                            step(SYSTEM, driven, parameters, state, other)
                            done["refusals"] += 1
                state = step(SYSTEM, driven, parameters, state, move)
                done["steps"] += 1
                done[move.action] += 1
        except Divergence as divergence:
            raise Divergence(f"{divergence}\n  by {list(path)}") from divergence
        finally:
            driven.dispose()
    done["states"] = len(tried)
    return done


SMALL = Parameters(window=1, total=1, upstream_dials=True)
DIALLER = pytest.mark.parametrize("upstream_dials", [True, False], ids=["put", "get"])


@DIALLER
def test_both_ends_take_steps_of_the_model(upstream_dials: bool) -> None:
    done = led(replace(SMALL, upstream_dials=upstream_dials), 60)
    assert {action.name for action in SYSTEM.actions} - done.keys() <= {"Done", *NOT_LED}


@pytest.mark.long
@DIALLER
def test_both_ends_take_each_step_of_the_model(upstream_dials: bool) -> None:
    assert led(replace(SMALL, upstream_dials=upstream_dials), 1)["steps"] > 5_000


@pytest.mark.long
@DIALLER
def test_both_ends_follow_the_model_with_a_wider_window(upstream_dials: bool) -> None:
    led(Parameters(window=2, total=3, upstream_dials=upstream_dials, faults=False), 1)


class AnswersAtOnce(DownstreamSession[object]):
    """Its answer does not wait until everything is consumed."""

    @property
    def _owes_answer(self) -> bool:
        return False


class Hasty(DrivenStream):
    """A downstream that never answers End."""

    def make_downstream(self, get: Get | None) -> DownstreamSession[object]:
        return AnswersAtOnce(get)


def test_a_downstream_that_does_not_answer_is_found() -> None:
    with pytest.raises(Divergence, match="to_upstream"):
        led(SMALL, 60, Hasty)


# Who takes what in which state.

FRAMES: dict[type, Word] = {**WORDS, Chunks: "messages"}
BESIDE = {Data, Announcement, ReturnedBytes}
"""Likewise barriers, what a flow announces, and bytes: they are taken where chunks and permits are."""


@pytest.mark.parametrize("table", [UPSTREAM, DOWNSTREAM], ids=["upstream", "downstream"])
def test_a_session_takes_what_the_model_takes(table: Mapping[tuple[Session, type], Session]) -> None:
    takes = upstream_takes if table is UPSTREAM else downstream_takes
    frames: dict[Word, type] = {word: kind for kind, word in FRAMES.items() if word != "request"}
    frames |= {"request": Get if table is UPSTREAM else Put, "consumed": Ended}
    frames |= {"messages": Chunks}
    due = {
        (session, kind)
        for session, life in LIVES.items()
        if session is not (Session.AWAITING_PUT if table is UPSTREAM else Session.AWAITING_GET)
        and session is not Session.FAILED
        for word, kind in frames.items()
        if takes(word, life)
    }
    # A full carrier may hold End back, and then a Failure comes behind it.
    due |= {(Session.ENDED, Failure)}
    assert {(session, kind) for session, kind in table if kind not in BESIDE} == due
