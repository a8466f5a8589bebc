"""A graph of stages is read as it was meant; what cannot be meant is named with its line, its stage and its port."""

from collections.abc import Callable
from pathlib import Path

import pytest

from permitflow.errors import ParametersFileError
from permitflow.stages import Arc, Overflow
from permitflow.stages.blueprint import BufferNode, SourceNode, StageNode
from permitflow_tools.parameters.graph import DescribedGraph, read_graph
from permitflow_tools.parameters.read import read_description

Read = Callable[[str], DescribedGraph]
ENDS = '[stages.a]\nkind = "source"\n[stages.b]\nkind = "sink"\n'
THROUGH = 'arcs = ["a -> s", "s -> b"]\n' + ENDS + "[stages.s]\n"  # whose lines 6 and 7 are the heading and the kind


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_read(content: str) -> DescribedGraph:
        file = tmp_path / "loop.toml"
        file.write_text(content, encoding="utf-8")
        return read_graph(file)

    return write_and_read


def test_everything_that_can_be_said_of_a_graph_is_heard(read: Read) -> None:
    found = read(
        """
        arcs = ["a -> copy", "copy -> out", "copy.0 -> some", 'some -> kept', "kept -> drain"]
        [about]
        title = "A split"
        [stages]
        a = { kind = "source", elements = 1_000 }
        copy = { kind = "broadcast" }
        some = { kind = "stage", takes = 3, gives = [0, "any"] }
        kept = { kind = "buffer", capacity = 10, overflow = "drop_oldest" }
        out = { kind = "sink" }
        [stages.drain]
        kind = "sink"
        """
    )
    stages = found.blueprint.stages
    assert found.about.title == "A split"
    assert stages["a"] == SourceNode(1_000)
    assert stages["some"] == StageNode(takes=3, gives=(0, None))
    assert stages["kept"] == BufferNode(10, Overflow.DROP_OLDEST)
    assert found.blueprint.out_of("copy") == (Arc("copy", "some"), Arc("copy", "out", outlet=1))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", ": describes no stages: write arcs = "),
        (ENDS, ": has no arcs; write arcs = "),
        (
            'arcs = [\n"a -> b",\n"a -> c",\n]\n' + ENDS + '[stages.c]\nkind = "sink"',
            ", line 3: arc 2: a, outlet 1: a sour",
        ),
        ('arcs = [\n"a -> b",\n"a -> b",\n]\n' + ENDS, ", line 3: arc 2: a, outlet 1: a source has 1 outlet"),
        (
            'arcs = ["a -> m"]\n' + ENDS + '[stages.m]\nkind = "merge"',
            ", line 4: stages.b, inlet 0: it is not connected",
        ),
        (
            'arcs = ["a -> b"]\n' + ENDS + '[stages.m]\nkind = "merge"',
            ", line 6: stages.m, inlet 0: it is not connected",
        ),
        ('arcs = ["a -> b",\n"oa -> b"]\n' + ENDS, ", line 2: arc 2: oa: there is no such stage"),
        ('arcs = ["a => b"]\n' + ENDS, ", line 1: arc 1: 'a => b' is not an arc; write it as"),
        ('arcs = ["a -> b", 3]\n' + ENDS, ", line 1: arc 2 must be a text"),
        ('arcs = "a -> b"\n' + ENDS, ", line 1: arcs must be a list"),
        (ENDS + 'arcs = ["a -> b"]', ", line 5: arcs belongs above the first [stages.NAME]"),
        (
            THROUGH + 'kind = "stage"\ntakes = 0\ngives = 0',
            ", line 8: stages.s.takes and gives are both 0, which is not a rat",
        ),
        (THROUGH + 'kind = "stage"\ngives = [3, 1]', ", line 8: stages.s.gives must be at least 3"),
        (THROUGH + 'kind = "stage"\ngives = [0, true]', ", line 8: stages.s.gives must be a number, or the least and"),
        (
            THROUGH + 'kind = "buffer"\ncapacity = -3',
            ", line 8: stages.s.capacity must be at least 1, and a whole number, ",
        ),
        (THROUGH + 'kind = "buffer"\ncapacity = "8"', ", line 8: stages.s.capacity must be a whole number, not '8'"),
        (THROUGH + 'kind = "buffer"', ", line 6: [stages.s] is a buffer without capacity; write capacity = 16"),
        (THROUGH + 'kind = "buffer"\ncapcity = 1', ", line 8: stages.s.capcity is unknown; did you mean capacity?"),
        (
            THROUGH + 'kind = "buffer"\ncapacity = 1\noverflow = "dropHead"',
            ", line 9: stages.s.overflow 'dropHead' is unknown",
        ),
        (THROUGH + 'kind = "channel"\nwindow = 12\nbatch = 13', ", line 8: stages.s.window must be at least 14"),
        (
            THROUGH + 'kind = "filter"',
            ", line 7: stages.s.kind 'filter' is unknown; write kind = \"stage\" with gives = [0, 1]",
        ),
        (THROUGH + 'kind = "bufer"', ", line 7: stages.s.kind 'bufer' is unknown; did you mean buffer?"),
        (THROUGH + "capacity = 3", ", line 6: [stages.s] does not say what it is; write kind = "),
        ("stages = 3", ", line 1: stages must be tables"),
        ("[stages]\na = 3", ", line 2: stages.a must be a table"),
        ("arcs = []\nstage = 1\n" + ENDS, ", line 2: stage is unknown; did you mean stages?"),
        ('[about]\ntitel = ""\n' + ENDS, ", line 2: about.titel is unknown; did you mean title?"),
        ("[upstream]\nrow_permits = 8", ": describes a channel: `permitflow check "),
        (
            "arcs = []\n" + "".join(f'[stages.s{n}]\nkind = "stage"\n' for n in range(10_000)),
            ", line 2002: stages.s1000 is one stage too many: of the 10,000 in this file, at most 1,000 are checked",
        ),
    ],
    ids=lambda text: text[-40:],
)
def test_what_cannot_be_meant_is_named_with_its_line(read: Read, content: str, complaint: str) -> None:
    with pytest.raises(ParametersFileError) as caught:
        read(content)
    assert complaint in str(caught.value)


def test_a_graph_is_no_channel(tmp_path: Path) -> None:
    file = tmp_path / "loop.toml"
    file.write_text(THROUGH + 'kind = "stage"')
    with pytest.raises(ParametersFileError, match="describes a graph of stages: `permitflow check graph "):
        read_description(file)
