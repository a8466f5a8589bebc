"""Which model leads which class: a table of all classes of the cores.  One without an entry, or a stale one, fails.

A class is led if the model decides what it does next, in a run of a conformance test.  Each entry is tried: in a short
run of that test both the model and methods of the class are called.
"""

import ast
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import pytest

from permitflow import GateParameters
from permitflow_model import (
    adaptive_window,
    bridge,
    byte_window,
    conflate,
    direct_task,
    grpc_call,
    hash_dispatch,
    kept_channel,
    lossy_channel,
    mute,
    mute_scheduler,
    port_machine,
    staging,
    store_owner,
)
from permitflow_model.registry import systems
from permitflow_model.tla_values import snake_case
from permitflow_testing.moves import walk
from tests.conformance import (
    test_adaptive_window,
    test_bridge,
    test_byte_window,
    test_conflate,
    test_direct_task,
    test_drop_queue,
    test_fan_in_streams,
    test_flows_follow_models,
    test_gate_follows_model,
    test_grpc_call,
    test_hash_dispatch,
    test_kept_channel,
    test_lossy_channel,
    test_mute_graph,
    test_mute_links,
    test_mute_scheduler,
    test_named_producer,
    test_port_machine,
    test_staging,
    test_staging_sink,
    test_store_journal,
    test_store_owner,
    test_stream_life,
    test_token_bucket,
)
from tests.graphs import test_stepping
from tests.graphs.generated import SHAPES
from tests.support.replayed import Replayed
from tests.support.simulated_time import in_simulated_time

ROOT = Path(__file__).resolve().parents[2]
CORES = (
    "flows",
    "stream",
    "exchange/books",
    "mute",
    "stages/core",
    "carriers/datagrams/link.py",
    "dispatch/hash_dispatch.py",
    "exchange/stores/sqlite_database.py",
    "exchange/stores/sqlite_journal.py",
    "spark/decisions.py",
    "spark/sink.py",
)


@dataclass(frozen=True)
class Led:
    """Classes that a model leads."""

    model: str
    """A module of ``permitflow_model``."""
    run: Callable[[], object]
    """A short run in which it leads them."""
    classes: frozenset[str]


def led(model: str, run: Callable[[], object], *classes: str) -> Led:
    return Led(model, run, frozenset(classes))


def recorded(flow: str) -> Callable[[], object]:
    """A new run, and not the one that was kept."""
    return lambda: test_flows_follow_models.recorded.__wrapped__(flow)


def led_gate() -> object:
    return test_gate_follows_model.led(GateParameters(inputs=2, exclusive=0, floating=1), 0, 200)


def led_targets() -> object:
    parameters = GateParameters(inputs=2, exclusive=0, floating=3, max_chunk_cost=1)
    return test_gate_follows_model.led(parameters, 0, 200, adapts=True)


def led_withdrawals() -> object:
    parameters = GateParameters(inputs=2, exclusive=0, floating=3, max_chunk_cost=1)
    return test_gate_follows_model.led(parameters, 0, 100, withdraws=True)


def led_graph() -> object:
    parameters = replace(test_mute_graph.TWO_MUTERS, supply=1)
    return walk(mute.SYSTEM, test_mute_graph.DrivenGraph(parameters), parameters)


def led_processes() -> object:
    return test_mute_links.walked(replace(test_mute_links.SMALL, deaths=False, leaves=False))


def led_actors() -> object:
    parameters = replace(test_mute_scheduler.PRESSED, messages=1)
    return walk(mute_scheduler.SYSTEM, test_mute_scheduler.DrivenActors(parameters), parameters)


def judged_scheduler() -> object:
    """The scheduler chooses by itself; the model judges what it has chosen."""
    return test_mute_scheduler.judged(test_mute_scheduler.Recorded(0))


def led_stages() -> None:
    shapes = [name for name, _ in SHAPES]
    for name in ("tree", "growing loop", "shrinking loop", "zip loop"):
        test_stepping.test_real_stages_take_each_step_of_their_model(shapes.index(name))


def led_connection() -> object:
    return walk(port_machine.SYSTEM, Replayed(test_port_machine.DrivenConnection), test_port_machine.PARAMETERS)


def led_stage() -> object:
    return walk(conflate.SYSTEM, Replayed(test_conflate.Chain), test_conflate.PARAMETERS)


def led_receiver() -> object:
    reading = test_grpc_call.reading(1)
    return walk(grpc_call.SYSTEM, test_grpc_call.Receiver(reading), reading, never=test_grpc_call.NOT_LED)


def led_window() -> object:
    few = test_byte_window.PARAMETERS["expected to be larger"]
    return walk(byte_window.SYSTEM, test_byte_window.DrivenChannel(few), few)


def led_target() -> object:
    few = replace(test_adaptive_window.SMALL, permit_batch=1, row_costs=(1,))
    return walk(adaptive_window.SYSTEM, test_adaptive_window.DrivenChannel(few), few)


def led_link() -> object:
    few = test_lossy_channel.ONE_COPY
    return walk(lossy_channel.SYSTEM, test_lossy_channel.DrivenLink(few), few)


def led_dispatch() -> object:
    few = replace(test_hash_dispatch.LOSES, rows=1, marks=0)
    return walk(hash_dispatch.SYSTEM, test_hash_dispatch.DrivenDispatch(few), few)


def led_bridge() -> object:
    few = replace(test_bridge.ONE, faults=False)
    return walk(bridge.SYSTEM, test_bridge.DrivenBridge(few), few)


def led_log() -> object:
    few = replace(test_kept_channel.SMALL, horizon=1)
    return walk(kept_channel.SYSTEM, test_kept_channel.DrivenLog(few), few)


def led_starts() -> object:
    return in_simulated_time(test_named_producer.led(0))


def led_attempts() -> object:
    few = replace(test_staging.SMALL, exchanges=1)
    return walk(staging.SYSTEM, test_staging.DrivenStaging(few), few)


def led_task() -> object:
    few = direct_task.Parameters(attempts=2, rows=1)
    return walk(direct_task.SYSTEM, test_direct_task.DrivenTask(few), few)


def led_sink() -> object:
    few = replace(test_staging.SMALL, faults=0)
    with TemporaryDirectory() as folder:
        return walk(staging.SYSTEM, test_staging_sink.DrivenSink(few, Path(folder)), few)


def led_owner() -> object:
    few = replace(test_store_owner.GROUPS, jobs=1)
    return walk(store_owner.SYSTEM, test_store_owner.DrivenStore(few), few)


def led_writer() -> object:
    return test_store_journal.walked(test_store_journal.NOTHING_FAILS)


LED = [
    led(
        "permit_channel",
        recorded("permits, pulled"),
        *("flows/permits/core.py PermitSender", "flows/permits/core.py PermitReceiver"),
        "flows/credit.py Credit",
        *("flows/seam.py Outbound", "flows/seam.py Inbound"),
        *("flows/messages.py Message", "flows/messages.py Offered"),
    ),
    led(
        "demand",
        recorded("demand"),
        *("flows/demand/core.py DemandSender", "flows/demand/core.py DemandReceiver"),
        *("flows/seam.py MessageSender", "flows/seam.py MessageReceiver"),
    ),
    led(
        "squelch",
        recorded("squelch"),
        *("flows/squelch/core.py SquelchSender", "flows/squelch/core.py SquelchReceiver"),
    ),
    led(
        "input_gate",
        led_gate,
        *("flows/gate/core.py GateSender", "flows/gate/core.py GateReceiver", "flows/gate/core.py Gate"),
        "flows/seam.py Group",
    ),
    led("mute", led_graph, "mute/graph.py MuteGraph"),
    led(
        "mute_links",
        led_processes,
        *("mute/graph.py MuteGraph", "mute/messages.py Peer", "mute/channel.py Boundary", "mute/channel.py Inlet"),
        *("mute/channel.py Sender", "mute/channel.py Dialling"),
    ),
    led("mute_scheduler", led_actors, "mute/actors.py Actors", "mute/actors.py Actor"),
    led("mute_scheduler", judged_scheduler, "mute/scheduler.py MuteScheduler"),
    led(
        "port_machine",
        led_connection,
        *("stages/core/ports.py Connection", "stages/core/ports.py Island", "stages/core/ports.py Stage"),
    ),
    led(
        "stage_graph",
        led_stages,
        *("stages/core/ports.py Island", "stages/core/edges.py Entry", "stages/core/edges.py Exit"),
        *(f"stages/core/elements.py {name}" for name in ("Map", "MapConcat", "Filter")),
        *(f"stages/core/graph.py {name}" for name in ("Balance", "Broadcast", "Concat", "Merge", "Zip")),
        *(f"stages/core/rates.py {name}" for name in ("Buffer", "Depth", "Unbounded")),
        "stages/core/boundary.py AsyncBoundary",
    ),
    led("conflate", led_stage, "stages/core/rates.py Batch", "stages/core/ports.py HoldingStage"),
    led("grpc_call", led_receiver, "stages/core/boundary.py InputBoundary"),
    led(
        "lossy_channel",
        led_link,
        *("carriers/datagrams/link.py LinkSender", "carriers/datagrams/link.py LinkReceiver"),
    ),
    led("adaptive_window", led_target, "flows/permits/core.py PermitReceiver", "flows/credit.py Credit"),
    led(
        "stream_life",
        lambda: test_stream_life.led(test_stream_life.SMALL, 500),
        *("stream/session.py UpstreamSession", "stream/session.py DownstreamSession"),
    ),
    led("adaptive_gate", led_targets, "flows/gate/core.py Gate"),
    led(
        "withdrawing_gate",
        led_withdrawals,
        *("flows/gate/core.py GateSender", "flows/gate/core.py GateReceiver", "flows/gate/core.py Gate"),
    ),
    led("bridge", led_bridge, "exchange/books/bridge.py BridgeBooks"),
    led("fan_in", lambda: in_simulated_time(test_fan_in_streams.led(0)), "exchange/books/bridge.py BridgeBooks"),
    led("kept_channel", led_log, "exchange/books/replay.py ReplayBooks"),
    led("named_producer", led_starts, "exchange/books/replay.py ReplayBooks"),
    led(
        "staging",
        led_attempts,
        *("exchange/books/staging.py StagingBooks", "exchange/books/staging.py StagingArea"),
        *("exchange/books/staging.py StagedQuery", "exchange/books/staging.py Part"),
    ),
    led(
        "direct_task",
        led_task,
        *("exchange/books/attempts.py AttemptBooks", "exchange/books/attempts.py Sending"),
    ),
    led("staging", led_sink, "spark/sink.py StagedStreamWriter", "spark/decisions.py Decisions"),
    led("store_owner", led_owner, "exchange/books/ownership.py StoreOwnership"),
    led(
        "store_journal",
        led_writer,
        *("exchange/stores/sqlite_database.py SqliteDatabase", "exchange/stores/sqlite_journal.py Journal"),
    ),
    led("hash_dispatch", led_dispatch, "dispatch/hash_dispatch.py HashDispatch"),
    led(
        "byte_window",
        led_window,
        *("flows/byte_window.py OutstandingBytes", "flows/byte_window.py UnreturnedBytes"),
    ),
    led(
        "drop_queue",
        lambda: test_drop_queue.test_the_same_jobs_are_served_after_the_same_time("oldest", 2),
        "stages/core/drop_queue.py DropQueue",
    ),
    led(
        "token_bucket",
        lambda: test_token_bucket.test_bucket_and_model_have_the_delays_of_akkas_tests("keeps nothing"),
        "stages/core/token_bucket.py TokenBucket",
    ),
]

_SOCKETS = "over sockets: MuteGraph decides, and this carries its signals, or the data"
_MESSAGE = "a message: it is made and read, and changes nothing"
_FUNCTIONS = "a function of each element; the model of ports leads each of its connections"
_TIME = "a choice by the clock; the model of ports leads each of its connections"
NOT_LED: Mapping[str, str] = {
    "mute/pipeline.py": _SOCKETS,
    "mute/sockets.py": _SOCKETS,
    "mute/saving.py": "when is saved, which no protocol says",
    "flows/adaptive_window.py AdaptiveWindow": "which target is chosen, by the clock; the model allows any",
    "flows/seam.py Urgency": "when feedback leaves, of which the models leave the choice",
    "stream/frames.py": _MESSAGE,
    "exchange/stores/sqlite_database.py Reserve": "room on a full disk, of which store_journal says nothing",
    "exchange/books/kept_barriers.py": "barriers of a channel that keeps its rows; SparkMicroBatch has none",
    "flows/byte_window.py RunSums": "sums of sizes: made and read, and they change nothing",
    "flows/messages.py PlainChunk": _MESSAGE,
    "stream/control.py BaseRequest": _MESSAGE,
    "spark/sink.py SentMessage": _MESSAGE,
    "spark/sink.py StagedMessage": _MESSAGE,
    "spark/sink.py ExchangeWriter": "rows that are read as they come: the exchange's attempts decide which count",
    "spark/sink.py StagedBatchWriter": "a batch job's words for what StagedStreamWriter does, which staging leads",
    "stream/session.py Session": "the common part of both ends, which stream_life leads",
    "stages/core/asynchronous.py": _TIME,
    "stages/core/elements.py Take": _FUNCTIONS,
    "stages/core/framing.py": _FUNCTIONS,
    "stages/core/rates.py Expand": _FUNCTIONS,
    "stages/core/rates.py Throttle": "a TokenBucket in a stage, which token_bucket leads",
}
"""Classes, or whole modules, that no model leads, and why."""

_SHAPE = "what several stages do together, counted in elements; stage_graph has them one by one"
MODELS_ALONE: Mapping[str, str] = {
    "blocking_echo": _SHAPE,
    "bounded_queue": "what a permit channel refines, with or without its permits",
    "diamond": _SHAPE,
    "feedback_loop": _SHAPE,
    "resume": "the carrier that resumes follows it; nothing leads that yet",
    "loop_chain": "two channels and a run of stages between them, Source.run_to: a model leads each channel",
    "mute_delay": "rates and delays, which no class keeps; it proves the formula that docs/protocols/mute.md states",
    "stop_and_wait": "the textbook; demand of size 1 has the same states and steps (tests/model/test_stop_and_wait.py)",
    "shared_window": "the deadlock of another system",
    "spark_micro_batch": "a query: an exchange takes its orders (test_replay_follows_model.py), staging leads its sink",
}
"""Models that lead no class, and why."""


def is_state(node: ast.ClassDef) -> bool:
    """Does it keep a protocol's state?  Messages, parameters, choices and interfaces do not."""
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    is_frozen = any("frozen=True" in ast.unparse(one) for one in node.decorator_list)
    plain = {"NamedTuple", "Enum", "StrEnum", "IntEnum", "Protocol", "ABC"}
    makes_ends = bases == {"Flow"}
    return not (node.name.startswith("_") or is_frozen or makes_ends or (bases and bases <= plain))


@cache
def core_classes() -> frozenset[str]:
    found = set[str]()
    package = ROOT / "impl/permitflow"
    for core in CORES:
        place = package / core
        for path in place.rglob("*.py") if place.is_dir() else (place,):
            nodes = ast.parse(path.read_text(encoding="utf-8")).body
            names = [node.name for node in nodes if isinstance(node, ast.ClassDef) and is_state(node)]
            found.update(f"{path.relative_to(package)} {name}" for name in names)
    return frozenset(found)


ALL_LED = frozenset().union(*(one.classes for one in LED))


def places_of(name: str) -> set[str]:
    """Where its entry may stand: by its own name, or by its module."""
    return {name, name.partition(" ")[0]}


def test_every_class_of_a_core_is_led_or_says_why_not() -> None:
    assert {name for name in core_classes() - ALL_LED if not places_of(name) & NOT_LED.keys()} == set()


def test_no_entry_of_the_table_is_stale() -> None:
    needed = set().union(*map(places_of, core_classes() - ALL_LED))
    assert (ALL_LED - core_classes()) | (NOT_LED.keys() - needed) == set()


def test_every_model_leads_a_class_or_says_why_not() -> None:
    assert set(map(snake_case, systems())) == {one.model for one in LED} | MODELS_ALONE.keys()
    assert not {one.model for one in LED} & MODELS_ALONE.keys()


def owners_of(code: CodeType) -> set[str]:
    """The model or the class of the package that has this function."""
    file, (owner, _, method) = Path(code.co_filename), code.co_qualname.partition(".")
    model = {file.stem} if "permitflow_model" in file.parts else set[str]()
    return model | ({f"{code.co_filename.partition('/permitflow/')[2]} {owner}"} if method else set())


def not_called_in(run: Callable[[], object], wanted: Collection[str]) -> set[str]:
    """Which of these models and classes nothing is called of."""
    missing, codes = {*wanted}, set[CodeType]()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code not in codes:
            codes.add(frame.f_code)
            missing.difference_update(owners_of(frame.f_code))
            if not missing:
                sys.setprofile(None)  # the rest of the run need not be watched

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return missing


@pytest.mark.parametrize("entry", LED, ids=lambda entry: f"{entry.model}-{len(entry.classes)}")
def test_a_model_calls_the_classes_that_it_leads(entry: Led) -> None:
    assert not_called_in(entry.run, {entry.model, *entry.classes}) == set()
