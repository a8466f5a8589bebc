"""Whether a graph of stages can come to a standstill: the examples of the literature, each with its verdict."""

from dataclasses import replace
from itertools import pairwise

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.stages import Blueprint, Overflow, Source, blueprint_of
from permitflow.stages.blueprint import (
    BlockingClientNode,
    BoundaryNode,
    BroadcastNode,
    BufferNode,
    ConcatNode,
    ConflateNode,
    ExpandNode,
    MergeNode,
    MergePreferredNode,
    Node,
    SinkNode,
    SourceNode,
    StageNode,
    UnboundedNode,
    ZipNode,
)
from permitflow_tools.checking import check_graph

DROPPING = BufferNode(10, Overflow.DROP_OLDEST)


def loop(join: Node, *back: Node, source: Node | None = None, back_first: bool = False) -> Blueprint:
    """A source goes into a loop: all that leaves the join goes to the sink, and through other stages back into it."""
    names = [f"back-{number}" for number in range(len(back))]
    stages = {"in": source or SourceNode(), "join": join, "copy": BroadcastNode(), "out": SinkNode()}
    way = ["copy", *names, f"join.{0 if back_first else 1}"]
    arcs = ["in -> join", "join -> copy", "copy -> out", *(f"{a} -> {b}" for a, b in pairwise(way))]
    return Blueprint.of({**stages, **dict(zip(names, back, strict=True))}, arcs)


def diamond(*left: Node, right: Node) -> Blueprint:
    """Two branches of a broadcast meet in a zip."""
    names = [f"left-{number}" for number in range(len(left))]
    stages = {"in": SourceNode(), "copy": BroadcastNode(), "right": right, "zip": ZipNode(), "out": SinkNode()}
    way = ["copy", *names, "zip"]
    arcs = ["in -> copy", *(f"{a} -> {b}" for a, b in pairwise(way))]
    return Blueprint.of(
        {**stages, **dict(zip(names, left, strict=True))}, [*arcs, "copy -> right", "right -> zip", "zip -> out"]
    )


def kicked(places: int) -> Blueprint:
    """A loop of pairs with a first element."""
    plain = loop(ZipNode(), BufferNode(places))
    arcs = ["in -> join", "join -> copy", "copy -> out", "copy -> back-0"]
    return Blueprint.of(
        {**plain.stages, "first": SourceNode(1), "then": ConcatNode()},
        [*arcs, "first -> then", "back-0 -> then", "then -> join"],
    )


def echo(writes: int, buffer: int, receive_buffer: int, *hand: Node) -> Blueprint:
    names = [f"hand-{number}" for number in range(len(hand))]
    way = ["client", "buffer", "server", *names, "client"]
    stages = {"client": BlockingClientNode(writes, receive_buffer), "buffer": BufferNode(buffer), "server": StageNode()}
    return Blueprint.of({**stages, **dict(zip(names, hand, strict=True))}, [f"{a} -> {b}" for a, b in pairwise(way)])


TWO_RATES = Blueprint.of(
    {
        "fast": SourceNode(),
        "slow": SourceNode(),
        "conflate": ConflateNode(),
        "ahead": BoundaryNode(16),
        "zip": ZipNode(),
        "out": SinkNode(),
    },
    ["fast -> conflate", "conflate -> ahead", "ahead -> zip", "slow -> zip", "zip -> out"],
)

SELF = Blueprint.of({"ring": BufferNode(1)}, ["ring -> ring"])

# Its expand gives again and again to the buffer, which drops: the island of these stages never rests.
RESTLESS = Blueprint.of(
    {**loop(MergeNode(), BufferNode(2)).stages, "again": ExpandNode(), "newest": DROPPING},
    [
        "in -> again",
        "again -> newest",
        "newest -> join",
        "join -> copy",
        "copy -> out",
        "copy -> back-0",
        "back-0 -> join",
    ],
)

CASES = {
    "merge loop": (loop(MergeNode(), BufferNode(10)), "deadlock"),
    "merge loop without a buffer": (loop(MergeNode()), "deadlock"),
    "feedback is preferred": (loop(MergePreferredNode(), BufferNode(10), back_first=True), "starves"),
    "source is preferred": (loop(MergePreferredNode(), BufferNode(10)), "deadlock"),
    "feedback is dropped": (loop(MergeNode(), DROPPING), "live"),
    "feedback has no bound": (loop(MergeNode(), UnboundedNode()), "live"),
    "the loop holds its end back": (loop(MergeNode(), DROPPING, source=SourceNode(5)), "never completes"),
    "too few elements to fill the loop": (loop(MergeNode(), BufferNode(10), source=SourceNode(5)), "never completes"),
    "a buffer that feeds itself": (SELF, "deadlock"),
    "a loop behind stages that never rest": (RESTLESS, "deadlock"),
    "zip loop": (loop(ZipNode(), BufferNode(2)), "deadlock"),
    "zip loop with a first element": (kicked(2), "live"),
    "... and no place beside it": (kicked(1), "deadlock"),
    "two rates across a boundary": (TWO_RATES, "live"),
    "diamond": (diamond(right=StageNode()), "live"),
    "groups of three, a place too few": (diamond(BufferNode(1), right=StageNode(3, (3, 3))), "deadlock"),
    "groups of three": (diamond(BufferNode(2), right=StageNode(3, (3, 3))), "live"),
    "one branch filters": (diamond(BufferNode(16), right=StageNode(gives=(0, 1))), "deadlock"),
    "the other one drops": (diamond(DROPPING, right=StageNode(gives=(0, 1))), "live"),
    "echo, 2,048 against 1,024": (echo(2_048, 1_024, 0), "deadlock"),
    "echo, and as much again": (echo(2_048, 1_024, 1_024), "live"),
    "echo, one too few": (echo(2_048, 1_024, 1_023), "deadlock"),
    "echo, one in the server's hand": (echo(2_048, 1_024, 1_023, BufferNode(1)), "live"),
    "echo of a mebibyte": (echo(1 << 20, 1 << 16, 1 << 16), "deadlock"),
    "echo of a mebibyte, and room for it": (echo(1 << 20, 1 << 16, 15 << 16), "live"),
    "a large loop": (loop(MergeNode(), BufferNode(100_000)), "deadlock"),
    "k = 2": (loop(MergeNode(), StageNode(gives=(2, 2)), BufferNode(3)), "deadlock"),
    "k <= 1": (loop(MergeNode(), StageNode(gives=(0, 1)), BufferNode(3)), "deadlock"),
    "a server that answers half, and room for too few": (echo(40, 4, 0, StageNode(2)), "deadlock"),
    "k = 1/2": (loop(MergeNode(), StageNode(2), BufferNode(3)), "live"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_example_has_its_verdict(case: str) -> None:
    blueprint, verdict = CASES[case]
    assert check_graph(blueprint).verdict == verdict


@pytest.mark.parametrize(
    ("case", "ring"),
    [
        ("merge loop", ["join", "copy", "back-0"]),
        ("zip loop", ["copy", "join", "back-0"]),
        ("groups of three, a place too few", ["copy", "left-0", "zip", "right"]),
        ("echo, 2,048 against 1,024", ["client", "buffer", "server"]),
    ],
)
def test_a_deadlock_names_the_ring_and_has_a_run_into_it(case: str, ring: list[str]) -> None:
    found = check_graph(CASES[case][0])
    assert [wait.stage for wait in found.ring] == ring
    assert found.is_shortest
    assert found.run[0].text == "the beginning"
    assert found.moves == () or len(found.moves) == len(found.run) - 1


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("merge loop", 'let back-0 drop, with overflow = "drop_oldest"'),
        ("... and no place beside it", "let back-0 have 2 places: one more than elements go round"),
        ("zip loop", "put a first element into the arc back-0 -> join"),
        ("groups of three, a place too few", "let left-0 have 2 places, which is the least that is enough"),
        ("one branch filters", "no buffer of up to 1,000 places is enough"),
        ("echo, 2,048 against 1,024", "let client write at most 1,024 elements before it reads: W <= S + C + h"),
        ("feedback is preferred", "let join be a merge, and drop elements in the arc back-0 -> join"),
        ("the loop holds its end back", "a take, or a consumer that leaves, cancels the loop"),
    ],
)
def test_the_advice_says_what_helps_with_numbers(case: str, told: str) -> None:
    assert told in "; ".join(check_graph(CASES[case][0]).advice)


def test_the_smallest_buffer_of_a_diamond_is_found() -> None:
    for size in (3, 5, 8):
        blueprint = diamond(right=StageNode(size, (size, size)))
        (advice,) = check_graph(blueprint).advice
        places = int(advice.partition(" of ")[2].split()[0])
        buffered = diamond(BufferNode(places), right=StageNode(size, (size, size)))
        assert check_graph(buffered).verdict == "live"
        if places > 1:
            short = replace(buffered, stages={**buffered.stages, "left-0": BufferNode(places - 1)})
            assert check_graph(short).verdict == "deadlock"


def test_what_grows_without_a_bound_or_may_fail_is_noted() -> None:
    failing = loop(MergeNode(), UnboundedNode(), BufferNode(3, Overflow.FAIL))
    assert [note.split()[0] for note in check_graph(failing).notes] == ["back-0", "back-1"]


@pytest.mark.parametrize("case", ["feedback is preferred", "the loop holds its end back"])
def test_what_starves_or_never_ends_is_shown_by_a_run(case: str) -> None:
    found = check_graph(CASES[case][0])
    assert len(found.moves) == found.steps == len(found.run) - 1 > 0
    assert not found.is_shortest


@pytest.mark.parametrize(("places", "verdict"), [(2, "live"), (1, "deadlock")])
def test_fifty_stages_are_judged_block_by_block(places: int, verdict: str) -> None:
    stages: dict[str, Node] = {"in": SourceNode(), "out": SinkNode()}
    arcs, before = [], "in"
    for n in range(12):
        stages |= {f"copy-{n}": BroadcastNode(), f"group-{n}": StageNode(3, (3, 3)), f"zip-{n}": ZipNode()}
        stages[f"ahead-{n}"] = BufferNode(places if n == 11 else 2)
        arcs += [f"{before} -> copy-{n}", f"copy-{n} -> ahead-{n}", f"copy-{n} -> group-{n}"]
        arcs += [f"ahead-{n} -> zip-{n}", f"group-{n} -> zip-{n}"]
        before = f"zip-{n}"
    found = check_graph(Blueprint.of(stages, [*arcs, f"{before} -> out"]))
    assert found.verdict == verdict
    if verdict == "deadlock":
        assert {wait.stage for wait in found.ring} == {"copy-11", "ahead-11", "zip-11", "group-11"}
        assert found.advice == ("let ahead-11 have 2 places, which is the least that is enough",)


def test_an_echo_of_another_length_gets_no_advice_with_numbers() -> None:
    blueprint, _ = CASES["a server that answers half, and room for too few"]
    assert check_graph(blueprint).advice == ("let client read while it writes",)


def test_a_stream_is_no_blueprint_and_a_list_is_no_stream() -> None:
    with pytest.raises(InvalidParametersError, match=r"must be a Blueprint, as blueprint_of\(source\) makes one"):
        check_graph(Source([1]))  # type: ignore[arg-type]  # the wrong use itself
    with pytest.raises(InvalidParametersError, match=r"sources must be streams of permitflow.stages, not \[1\]"):
        blueprint_of([1])  # type: ignore[arg-type]  # the wrong use itself
