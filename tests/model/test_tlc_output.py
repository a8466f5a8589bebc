"""What TLC prints is read as what it means; the texts are TLC 2.15's own, shortened."""

import pytest

from permitflow_model.manifest import DEADLOCK, SUCCESS, ModelVerdict
from permitflow_model.tlc.output import TlcError, read_dump, read_output


def message(code: int, text: str, severity: int = 0) -> str:
    return f"@!@!@STARTMSG {code}:{severity} @!@!@\n{text}\n@!@!@ENDMSG {code} @!@!@\n"


START = message(2262, "TLC2 Version 2.15 of Day Month 20?? (rev: d5b5a7f)") + "Parsing file /tmp/A.tla\n"
COUNTS = message(2199, "1353 states generated, 1206 distinct states found, 15 states left on queue.")
DEPTH = message(2194, "The depth of the complete state graph search is 5.")
PROGRESS = message(2200, "Progress(30) at 2026-11-21 01:14:09: 1,946 states generated (1 s/min), 1,206 distinct ...")
TRACE = (
    message(2121, "The behavior up to this point is:", 1)
    + message(2217, "1: <Initial predicate>\n/\\ a = 0\n/\\ b = <<>>\n", 4)
    + message(2217, "2: <Step line 9, col 5 to line 9, col 8 of module A>\n/\\ a = 1\n/\\ b = <<>>\n", 4)
)


def test_success_comes_with_its_numbers() -> None:
    found = read_output(START + message(2193, "Model checking completed. No error has been found.") + COUNTS + DEPTH)
    assert (found.verdict, found.states, found.depth, found.trace) == (SUCCESS, 1206, 5, ())
    assert found.version.startswith("TLC2 Version 2.15")


@pytest.mark.parametrize("step", ["<Step line 9", '<Step(1,"a line",{2}) line 9'], ids=["of old", "since 2025"])
def test_a_violated_invariant_comes_with_the_run_into_it(step: str) -> None:
    trace = TRACE.replace("<Step line 9", step)
    found = read_output(START + message(2110, "Invariant Bounded is violated.", 1) + trace + COUNTS + DEPTH)
    assert found.verdict == ModelVerdict("invariant", "Bounded")
    assert [(step.action, step.state["a"]) for step in found.trace] == [(None, 0), ("Step", 1)]


def test_a_violated_initial_state_is_a_trace_of_its_own() -> None:
    found = read_output(
        START + message(2107, "Invariant X is violated by the initial state:\n/\\ a = 3\n/\\ b = 1\n", 1)
    )
    assert (found.verdict, found.states, found.depth) == (ModelVerdict("invariant", "X"), 1, 1)
    assert [step.state for step in found.trace] == [{"a": 3, "b": 1}]


@pytest.mark.parametrize(
    ("code", "text", "verdict"),
    [
        (2114, "Deadlock reached.", DEADLOCK),
        (2112, "Action property KeepsPlace is violated.", ModelVerdict("property", "KeepsPlace")),
        (2108, "Property P is violated by the initial state:\n/\\ a = 0\n", ModelVerdict("property", "P")),
    ],
)
def test_other_violations_are_told_apart(code: int, text: str, verdict: ModelVerdict) -> None:
    assert read_output(START + message(code, text, 1)).verdict == verdict


@pytest.mark.parametrize(
    ("text", "properties", "name"),
    [
        ("Temporal properties were violated.\n", ["Live"], "Live"),
        ("Temporal properties were violated.\n", ["Live", "Fair"], None),
        ("Temporal property Fair was violated.\n", ["Live", "Fair"], "Fair"),
    ],
)
def test_a_violated_temporal_property_is_named_where_that_is_certain(
    text: str, properties: list[str], name: str | None
) -> None:
    found = read_output(START + message(2116, text, 1) + TRACE + PROGRESS + COUNTS, properties=properties)
    assert found.verdict == ModelVerdict("property", name)
    assert (found.states, found.depth) == (1206, 30)


@pytest.mark.parametrize(("properties", "name"), [(["IsQueue"], "IsQueue"), (["IsQueue", "IsFair"], None)])
def test_an_instances_only_violated_formula_is_named(properties: list[str], name: str | None) -> None:
    text = "Action property line 49, col 27 to line 49, col 49 of module BoundedQueue is violated."
    output = message(2112, text, severity=1)
    assert read_output(output, properties=properties).verdict == ModelVerdict("property", name)


def test_a_run_against_liveness_says_where_it_turns_back() -> None:
    violated = START + message(2116, "Temporal properties were violated.\n", 1) + TRACE
    assert read_output(violated + message(2218, "3: Stuttering", 4)).loop == 1
    assert read_output(violated + message(2122, "1: Back to state: <Step line 9>", 4)).loop == 0
    assert read_output(violated).loop is None


def test_an_error_in_a_formula_is_no_verdict() -> None:
    nested = message(2154, "Cannot cast RecordValue to IntValue")
    with pytest.raises(TlcError, match="Cannot cast RecordValue to IntValue") as caught:
        read_output(START + message(2102, f"{nested}While working on the initial state:", 1) + COUNTS)
    assert "@!@" not in str(caught.value)
    assert COUNTS in caught.value.output


def test_a_complaint_of_the_parser_is_shown() -> None:
    with pytest.raises(TlcError, match=r'Encountered "\[" at line 91') as caught:
        read_output(START + 'Encountered "[" at line 91\n' + message(3002, "Parsing or semantic analysis failed.", 1))
    assert "Parsing file" not in str(caught.value)


def test_an_end_without_a_verdict_is_an_error() -> None:
    with pytest.raises(TlcError, match=r"TLC stopped without a verdict:(?s:.*)java\.lang\.OutOfMemoryError"):
        read_output(START + "java.lang.OutOfMemoryError\n")


DUMP = r"""strict digraph DiskGraph {
nodesep=0.35;
subgraph cluster_graph {
color="white";
-14 [label="/\\ a = 0\n/\\ b = [s |-> \"x\"]",style = filled]
-14 -> 36 [label="Step",color="black",fontcolor="black"];
36 [label="/\\ a = 1\n/\\ b = [s |-> \"x\"]"];
36 -> 36 [label="Stay",color="black",fontcolor="black"];
{rank = same; -14;}
}
}"""


# As TLC writes it since February 2025: each state but the initial ones twice, and what the actions' parameters are.
NEW_DUMP = r"""strict digraph DiskGraph {
node [shape=box,style=rounded]
nodesep=0.35;
subgraph cluster_graph {
color="white";
-14 [label="/\\ a = 0\n/\\ b = [s |-> \"x\"]",style = filled]
-14 -> 36 [label="Step(1,[s |-> \"(x)\"],{2})",color="black",fontcolor="black"];
36 [label="/\\ a = 1\n/\\ b = [s |-> \"x\"]",tooltip="/\\ a = 1\n/\\ b = [s |-> \"x\"]"];
-14 -> 36 [label="Step(2,[s |-> \"y\"],{})",color="black",fontcolor="black"];
36 -> 36 [label="Stay",color="black",fontcolor="black"];
{rank = same; -14;}
{rank = same; 36;}
}
}"""


@pytest.mark.parametrize("dump", [DUMP, NEW_DUMP], ids=["until 2024", "since 2025"])
def test_a_dumped_graph_is_read(dump: str) -> None:
    graph = read_dump(dump)
    first, second = '/\\ a = 0\n/\\ b = [s |-> "x"]', '/\\ a = 1\n/\\ b = [s |-> "x"]'
    assert graph.initial == {first}
    assert graph.states == {first, second}
    assert graph.edges == {(first, "Step", second), (second, "Stay", second)}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('label="Step",', "", "has a step -14 -> 36 without its states or its label"),
        ("-14 ->", "15 ->", "has a step 15 -> 36 without its states or its label"),
        ("{rank", "36 {rank", "has a line that is neither a state nor a step: 36"),
    ],
)
def test_an_incomplete_dump_is_refused(old: str, new: str, message: str) -> None:
    assert DUMP.count(old) == 1
    with pytest.raises(TlcError, match=message):
        read_dump(DUMP.replace(old, new))
