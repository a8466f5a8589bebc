"""One name for one thing: specification, model, core, adapters, traces and docs/reference/vocabulary.md agree."""

import ast
import asyncio
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

import permitflow.exchange.books
import permitflow.flows
import permitflow.mute
import permitflow.stages.core
from permitflow import ChannelParameters, ChannelStatistics
from permitflow.exchange import Exchange, Retention
from permitflow.exchange.serving import traffic_through
from permitflow.flows.demand.core import DEMAND
from permitflow.flows.permits.agreement import GAUGE_HELP
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.flows.table import flow_named
from permitflow.metrics import ExchangeCollector
from permitflow.stream.traffic import FIGURES, rates_between
from permitflow.tracing import MemoryTrace
from permitflow.wire.v1 import exchange_pb2, permits_pb2
from permitflow_model.manifest import module_paths, parts_of, read_manifest, whole_text
from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_model.registry import Registered, systems
from permitflow_model.spark_micro_batch import SYSTEM as QUERY
from permitflow_model.tla_values import camel_case
from permitflow_testing.moves import Move
from permitflow_testing.subjects.permits import CorePair
from permitflow_tools.cli.serving import metrics_at

CHECKOUT = Path(__file__).resolve().parent.parent
OF_THE_QUERY = "docs/protocols/spark-micro-batch.md"
GLOSSARY = "docs/reference/glossary.md"
CORE: dict[str, type] = {
    "PermitSender": PermitSender,
    "PermitReceiver": PermitReceiver,
    "ChannelParameters": ChannelParameters,
}
CORES = (permitflow.flows, permitflow.exchange.books)
SPECIFICATIONS = {
    f"permitflow.flows.{registered.flow.replace('-', '_')}.core": name
    for name, registered in systems().items()
    if registered.flow
} | {"permitflow.flows.byte_window": "ByteWindow"}
"""What the ``Spec:`` lines of a flow mean; those of other modules mean ``PermitChannel``."""
NOT_IN_AN_IMPLEMENTATION = {"Sizes", "Watermarks", "FlushIdle", "Withdrawals", "Waiters", "Tags", "Fair"}
LOOKS_LIKE_AN_ACTION = re.compile(r"(?:Offer|Withdraw|Send)[A-Z]\w*|Deliver\w*|Consume\w*|Flush\w*|AddPermits\w*")
LOOKS_LIKE_AN_ACTION_OF_A_QUERY = re.compile(
    r"(?!\w+Probe)(?:(?:Plan|Write|Run|Fail|Abandon|Abort|Crash|Report)[A-Z]\w*"
    r"|(?:Produce|Acknowledge|Stage|Publish|Restart)(?:[A-Z]\w*)?)"
)
# Look like actions and are constants, or types of the model, or modules.
OTHER_NAMES = {"FlushIdle", "AcknowledgeIn", "StageGraph"}


# Where the names come from.


def specification() -> str:
    return (CHECKOUT / "spec/permit_channel/PermitChannel.tla").read_text()


def defined(text: str, name: str) -> str:
    """The body of a definition: what is indented below it."""
    match = re.search(rf"^{name} ==((?:\n? .*)+)", text, re.MULTILINE)
    assert match is not None, name
    return match[1]


def declared(text: str, keyword: str) -> list[str]:
    """The names of the constants or variables, without their comments."""
    match = re.search(rf"^{keyword}\n((?:    .*\n)+)", text, re.MULTILINE)
    assert match is not None, keyword
    return re.findall(r"^ +(\w+)", re.sub(r"\\\*.*", "", match[1]), re.MULTILINE)


def actions_of_the_specification(module: str = "PermitChannel") -> set[str]:
    text = whole_text(module)
    assert defined(text, "Next").split() == ["Environment", "\\/", "Protocol"]
    both = (defined(text, name).strip() for name in ("Environment", "Protocol"))
    return {name for part in both for name in re.findall(r"(?:^|\\/) *(?:\\E \w+ \\in \w+ : )?(\w+)", part)}


def recorded_actions() -> dict[str, set[str]]:
    """Let the core do everything there is, and see what is recorded at which end."""
    trace = MemoryTrace()
    pair = CorePair(ChannelParameters(row_permits=8, permit_batch=4), record=trace.recorder)
    pair.offer_chunk(3)
    pair.offer_chunk(2)
    for method in (
        *("withdraw_chunk", "offer_barrier", "withdraw_barrier", "offer_barrier", "send_chunk", "offer_watermark"),
        *("send_barrier", "send_watermark", *("deliver", "consume") * 3, "flush", "add_permits"),
    ):
        getattr(pair, method)()
    return {end: {event.action for event in trace.events if event.end == end} for end in ("sender", "receiver")}


def tables(document: str = "docs/reference/vocabulary.md") -> dict[str, list[dict[str, str]]]:
    """The tables of a document by the heading of their first column."""
    found: dict[str, list[dict[str, str]]] = {}
    for lines in re.findall(r"((?:^\|.*\n)+)", (CHECKOUT / document).read_text(), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|\n ").split("|")] for line in lines.splitlines())
        found[head[0]] = [dict(zip(head, row, strict=True)) for row in rows]
    return found


def names_in(table: str, column: str, *document: str) -> list[str]:
    """What stands in backquotes in a column."""
    return [name for row in tables(*document)[table] for name in re.findall(r"`([\w.]+)`", row[column])]


def spec_lines(package: Any) -> Iterator[tuple[str, str, list[str]]]:
    """Who has a ``Spec:`` line in its docstring, the module that is meant if it names none, and the names in it."""
    modules = [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for module_name in modules:
        tree = ast.parse(inspect.getsource(importlib.import_module(module_name)))
        for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
            for node in ast.iter_child_nodes(scope):
                if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                    continue
                owner = f"{scope.name}." if isinstance(scope, ast.ClassDef) else ""
                for line in re.findall(r"^Spec: (.+)\.$", ast.get_docstring(node) or "", re.MULTILINE):
                    names = re.findall(r"\w+", re.sub(r"\b(the variables?|and)\b", "", line))
                    yield f"{owner}{node.name}", SPECIFICATIONS.get(module_name, "PermitChannel"), names


def in_spec_lines(module: str = "PermitChannel") -> set[str]:
    """The names in the ``Spec:`` lines of what does this specification."""
    lines = [(of, names) for package in CORES for _, of, names in spec_lines(package)]
    return {name for of, names in lines if of == module and names[-2:-1] != ["of"] for name in names}


# Held against each other.


def differences(sources: Mapping[str, set[str]]) -> list[str]:
    """How other sources differ from the first one."""
    (first, due), *others = sources.items()
    return [
        f"{name} {what} {', '.join(sorted(names))}, unlike {first}"
        for name, found in others
        for what, names in (("lacks", due - found), ("has besides", found - due))
        if names
    ]


def sources_of_actions() -> dict[str, set[str]]:
    """The same names everywhere; where Python's spelling is used, as the method of the action."""
    by_method = {Move(name).method: name for name in actions_of_the_specification()}
    recorded = recorded_actions()
    spelt = {
        # It may have methods besides; the interface has not.
        "the core's adapter": {name for name in by_method if callable(getattr(CorePair, name, None))},
        "the model's functions": {action.perform.__name__ for action in SYSTEM.actions},
        "docs/reference/vocabulary.md, model and adapter": set(names_in("Action", "Model and adapter")),
    }
    return {
        "the specification": actions_of_the_specification(),
        "the model": {action.name for action in SYSTEM.actions},
        "the recorders' table": {action for of_end in PERMIT_ACTIONS.actions.values() for action in of_end},
        "what the core records": recorded["sender"] | recorded["receiver"],
        "docs/reference/vocabulary.md": set(names_in("Action", "Action")),
        **{source: {by_method.get(name, name) for name in names} for source, names in spelt.items()},
        "the Spec: lines of the core": {name for name in in_spec_lines() if LOOKS_LIKE_AN_ACTION.fullmatch(name)},
    }


def test_the_actions_have_the_same_names_everywhere() -> None:
    assert differences(sources_of_actions()) == []


def test_a_name_that_differs_is_noticed() -> None:
    sources = {"the first": {"Flush", "Consume"}, "one": {"Consume"}, "another": {"Flush", "Consume", "FlushResidue"}}
    assert differences(sources) == [
        "one lacks Flush, unlike the first",
        "another has besides FlushResidue, unlike the first",
    ]


def test_each_end_records_its_own_actions() -> None:
    recorded = recorded_actions()
    assert recorded == {end: set(PERMIT_ACTIONS.actions[end]) for end in ENDS}
    assert recorded == {end: {action.name for action in SYSTEM.actions if action.end == end} for end in ENDS}
    assert {row["Action"].strip("`"): row["Recorded by"] for row in tables()["Action"]} == {
        action: end for end, actions in recorded.items() for action in actions
    }


def test_the_actions_of_demand_have_the_same_names_everywhere() -> None:
    flow = DEMAND
    module = SPECIFICATIONS[type(flow).__module__]
    text = whole_text(module)
    others = {module, *declared(text, "CONSTANTS"), *declared(text, "VARIABLES")}
    sources = {
        "the specification": actions_of_the_specification(module),
        "the recorders' table": {name for of_end in flow.table.actions.values() for name in of_end},
        "its Spec: lines": in_spec_lines(module) - others,
    }
    assert differences(sources) == []


@pytest.mark.parametrize(
    "package",
    [permitflow.flows, permitflow.exchange.books, permitflow.mute, permitflow.stages.core],
    ids=lambda p: p.__name__,
)
def test_spec_lines_name_only_what_the_specification_defines(package: ModuleType) -> None:
    lines = list(spec_lines(package))
    assert len(lines) >= 6
    for owner, own, words in lines:
        # "Spec: Produce of SparkMicroBatch.", or of the flow's own.
        names, module = (words[:-2], words[-1]) if words[-2:-1] == ["of"] else (words, own)
        assert names, owner
        assert set(names) <= names_of(module), owner


def names_of(module: str) -> set[str]:
    """What a specification declares and defines."""
    text = whole_text(module)
    return {module, *declared(text, "CONSTANTS"), *declared(text, "VARIABLES"), *operators_of(module)}


def operators_of(module: str) -> set[str]:
    """What it, or a module that it extends, defines."""
    return set(re.findall(r"^(\w+)(?:\(.*\))? ==", whole_text(module), re.MULTILINE))


def test_variables_have_the_same_names_everywhere() -> None:
    variables = declared(specification(), "VARIABLES")
    assert variables == [camel_case(name) for name in State._fields]
    assert names_in("Variable", "Variable") == variables
    assert names_in("Variable", "Model") == list(State._fields)


def test_constants_have_the_same_names_everywhere() -> None:
    constants = set(declared(specification(), "CONSTANTS"))
    in_model = {name[0].upper() + name[1:] for name in (camel_case(field.name) for field in fields(Parameters))}
    assert in_model | {"Fair"} == constants
    shared = names_in("Constant", "Constant")
    assert set(shared) | NOT_IN_AN_IMPLEMENTATION == constants
    assert [camel_case(name)[0].upper() + camel_case(name)[1:] for name in names_in("Constant", "Model")] == shared
    assert {name.partition(".")[2] for name in names_in("Constant", "Core")} | {"oversize"} == {
        field.name for field in fields(ChannelParameters)
    }


@pytest.mark.parametrize(("table", "column"), [("Action", "Core"), ("Variable", "Core"), ("Constant", "Core")])
def test_the_core_has_the_names_of_the_tables(table: str, column: str) -> None:
    names = names_in(table, column)
    assert names
    for name in names:
        owner, _, member = name.partition(".")
        assert hasattr(CORE[owner], member) or member in getattr(CORE[owner], "__slots__", ()), name


@pytest.mark.parametrize(("table", "least"), [("Action", 7), ("Constant", 4)])
def test_the_wire_has_the_names_of_the_tables(table: str, least: int) -> None:
    names = names_in(table, "Frame")
    assert len(names) >= least
    for name in names:
        message, _, field = name.partition(".")
        of_wire = dict(exchange_pb2.DESCRIPTOR.message_types_by_name)
        of_flow = dict(permits_pb2.DESCRIPTOR.message_types_by_name)
        assert field in (of_wire | of_flow)[message].fields_by_name, name


# Metrics that are of no channel.
OF_THE_WHOLE_EXCHANGE = (
    "streams",
    "memory_reserved_bytes",
    "memory_limit_bytes",
    "dropped_packets",
    "lost_processes",
    "certificate_not_before_timestamp_seconds",
    "certificate_not_after_timestamp_seconds",
)


async def shown_figures() -> tuple[dict[str, str], dict[str, str]]:
    """What an exchange shows of its channels: where each name stands in JSON, and the kind of each metric."""

    def scraped(address: str) -> dict[str, str]:
        with urlopen(address, timeout=30) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            ours = (family for family in families if family.name.startswith("permitflow_"))
            return {
                name: family.type
                for family in ours
                if (name := family.name.removeprefix("permitflow_")) not in OF_THE_WHOLE_EXCHANGE
            }

    exchange = Exchange()
    exchange.add_channel("once")
    exchange.add_channel("kept", retention=Retention.REPLAY)
    once, kept = (rates.as_json() for rates in rates_between(None, await traffic_through(exchange)))
    assert isinstance(once["gauges"], dict)
    assert isinstance(kept["kept"], dict)
    # A name, a sentence and three groups are no figures.
    no_figures = ("channel", "reason", "gauges", "consumer_gauges", "kept")
    of_all = {name: "yes" for name in once if name not in no_figures}
    where = of_all | dict.fromkeys(kept["kept"], "in `kept`") | dict.fromkeys(once["gauges"], "in `gauges`")
    async with metrics_at("127.0.0.1:0", ExchangeCollector(exchange)) as address:
        return where, await asyncio.to_thread(scraped, address)


def test_each_figure_has_one_name_and_one_meaning() -> None:
    rows = {row["Figure"].strip("`"): row for row in tables()["Figure"]}
    where, metrics = asyncio.run(shown_figures())
    assert {name: row["Means"] for name, row in rows.items()} == {**FIGURES, **GAUGE_HELP}
    assert {name: row["JSON"] for name, row in rows.items()} == where
    kinds = {name: re.match("counter|gauge", row["Prometheus"]) for name, row in rows.items()}
    assert {name: kind[0] for name, kind in kinds.items() if kind} == metrics
    of_one_channel = {name for name, row in rows.items() if row["`statistics()`"] == "yes"}
    assert of_one_channel == {name for name, _ in inspect.getmembers(ChannelStatistics)} & set(FIGURES)


def test_the_actions_of_a_query_have_the_same_names_everywhere() -> None:
    sources = {
        "the specification": actions_of_the_specification("SparkMicroBatch"),
        OF_THE_QUERY: set(names_in("Action", "Action", OF_THE_QUERY)),
    }
    assert differences(sources) == []


def test_the_document_of_the_query_explains_what_is_checked() -> None:
    explained = set(names_in("Statement", "Statement", OF_THE_QUERY))
    assert set(QUERY.invariants) - {"TypeOK", "BatchCapped"} | {"Drained", "LossIsSaid"} == explained


# One word means one thing over all protocols.


def test_the_glossary_has_each_action_once_with_its_protocols() -> None:
    rows = tables(GLOSSARY)["Action of any protocol"]
    names = [row["Action of any protocol"].strip("`") for row in rows]
    assert len(names) == len(set(names))
    assert {name: row["Protocols"] for name, row in zip(names, rows, strict=True)} == {
        name: ", ".join(modules) for name, modules in modules_by_action().items()
    }


def test_no_two_actions_of_the_glossary_mean_the_same() -> None:
    meanings = [row["Means"] for row in tables(GLOSSARY)["Action of any protocol"]]
    assert sorted(meanings) == sorted(set(meanings))


def test_an_actions_name_names_nothing_else_elsewhere() -> None:
    specified = {module: names_of(module) for module in sorted(systems())}
    specified["WithdrawingGate"] -= {"SendData", "Deliver"}  # SendAndTell and DeliverOrReturn take their place
    for name, modules in modules_by_action().items():
        assert [module for module, names in specified.items() if name in names] == modules, name


@pytest.mark.parametrize(
    "module", sorted({*module_paths()} - {part for module in systems() for part in parts_of(module)})
)
def test_a_module_beside_the_models_uses_its_words_as_they_do(module: str) -> None:
    of_models = {name for part in parts_of(module) if part in systems() for name in operators_of(part)}
    assert operators_of(module) & set(modules_by_action()) <= of_models | {"Done"}


def test_the_glossary_has_the_recorded_events_that_are_no_actions() -> None:
    recorded = {
        (event, each.flow)
        for each in systems().values()
        for event in recorded_events(each) - {action.name for action in each.system.actions}
    }
    rows = tables(GLOSSARY)["Recorded event"]
    assert {(row["Recorded event"].strip("`"), row["Flow"]) for row in rows} == recorded


def recorded_events(registered: Registered) -> set[str]:
    """Of the flow that a system specifies, if it does."""
    if not registered.flow:
        return set()
    return {event for of_end in flow_named(registered.flow).table.actions.values() for event in of_end}


def modules_by_action() -> dict[str, list[str]]:
    """Of each action the modules that have it, in the order of their names."""
    found: dict[str, list[str]] = {}
    for module, protocol in systems().items():
        for action in protocol.system.actions:
            found.setdefault(action.name, []).append(module)
    return found


@cache
def known_actions() -> frozenset[str]:
    """Those of the models, and the mistaken ones that the manifest puts in their places."""
    right = {action.name for registered in systems().values() for action in registered.system.actions}
    return frozenset(right | {wrong for model in read_manifest().values() for wrong in model.actions.values()})


def misspelt(source: str) -> set[str]:
    """Texts that look like the name of an action and are none, nor one of a recorded event."""
    constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    texts = {value for value in constants if isinstance(value, str)}
    of_channels = {text for text in texts if LOOKS_LIKE_AN_ACTION.fullmatch(text)}
    of_queries = {text for text in texts if LOOKS_LIKE_AN_ACTION_OF_A_QUERY.fullmatch(text)}
    recorded = {event for registered in systems().values() for event in recorded_events(registered)}
    return (of_channels | of_queries) - known_actions() - recorded - OTHER_NAMES


@pytest.mark.parametrize("room", ["model", "proofs"])
def test_no_program_names_an_action_that_does_not_exist(room: str) -> None:
    wrong = {
        str(path.relative_to(CHECKOUT)): names
        for path in (CHECKOUT / room).rglob("*.py")
        if (names := misspelt(path.read_text()))
    }
    assert wrong == {}


def test_a_misspelt_action_is_noticed() -> None:
    assert misspelt('record("SendChunks", 1)') == {"SendChunks"}
    assert misspelt('record("SendChunk", 1)') == set()
    assert misspelt('record("CrashDrivers"), record("PlanBatch")') == {"CrashDrivers"}


def test_the_name_of_a_test_has_at_most_sixty_characters() -> None:
    names = {
        (path.name, name)
        for folder in ("tests", "examples")
        for path in (CHECKOUT / folder).rglob("test_*.py")
        for name in re.findall(r"def test_(\w+)\(", path.read_text())
    }
    assert len(names) > 1000
    assert {(file, name) for file, name in names if len(name) > 60} == set()
