"""What the graph of muters does beyond its models, of tests/conformance: starts, marks, loss, removal and misuse."""

import pytest

from permitflow.errors import InvalidParametersError, LocalProtocolError
from permitflow.mute import Marks, MuteGraph, Signal


def graph(*edges: str) -> MuteGraph:
    """A graph with edges such as ``"source step"``: sources and sinks are known by their first letters."""
    made = MuteGraph()
    for name in dict.fromkeys(" ".join(edges).split()):
        if name.startswith("source"):
            made.add_source(name)
            made.start(name)
        elif name.startswith("sink"):
            made.add_muter(name)
        else:
            made.add_relay(name)
    for edge in edges:
        made.connect(*edge.split())
    made.settle()
    return made


def test_a_source_does_not_read_before_it_is_started() -> None:
    mute = MuteGraph()
    mute.add_source("source")
    assert mute.muted_by("source") == {"source"}
    mute.start("source")
    assert mute.settle() == {"source": False}


@pytest.mark.parametrize(("backlog", "unmutes"), [(2, True), (3, False)])
def test_a_muter_that_opens_looks_at_its_low_mark(backlog: int, unmutes: bool) -> None:
    mute = MuteGraph()
    mute.add_muter("sink", Marks(high_mark=5, low_mark=2))
    mute.set_open("sink", False)
    mute.report("sink", backlog)
    assert mute.is_muting("sink")
    assert mute.set_open("sink", True) is unmutes


def test_a_muter_that_is_gone_mutes_until_all_paths_have_lost_it() -> None:
    mute = graph("source step", "step a", "step b")
    for boundary in "ab":
        mute.add_remote(far := f"far {boundary}")
        mute.connect(boundary, far)
        mute.receive(boundary, far, Signal("out", 1))
    assert mute.settle() == {"source": True}
    mute.reconnect("a", "far a")
    assert mute.settle() == {}
    mute.reconnect("b", "far b")
    assert mute.settle() == {"source": False}


def test_a_node_that_is_removed_is_told_nothing_more() -> None:
    mute = graph("source sink")
    mute.add_remote("elsewhere")
    mute.connect("elsewhere", "sink")
    mute.report("sink", 1)
    mute.remove("elsewhere")
    assert mute.settle() == {"source": True}
    assert "elsewhere" not in mute
    mute.remove("source")
    mute.report("sink", 0)
    assert (mute.in_flight, mute.settle()) == ({}, {})


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        (lambda mute: mute.connect("step", "source"), "cycle"),
        (lambda mute: mute.connect("sink", "step"), "from 'sink' to 'step' would close a cycle"),
        (lambda mute: mute.connect("source", "step"), "already"),
        (lambda mute: mute.add_relay("step"), "'step' already"),
        (lambda mute: mute.report("step", 1), "'step' is not a muter"),
        (lambda mute: mute.is_muted("sink"), "'sink' is not a source"),
        (lambda mute: mute.receive_signal("source", "step"), "no signal is in flight"),
        (lambda mute: mute.take("source", "sink"), "not connected"),
        (lambda mute: mute.remove("step"), "'step' is downstream of 'source', which cannot lose it"),
        (lambda mute: mute.remove("elsewhere"), "no node 'elsewhere'"),
        (lambda mute: mute.reconnect("source", "sink"), "'source' and 'sink' are not connected"),
        (lambda mute: mute.report("sink", -1), "backlog must be at least 0, not -1"),
        (lambda mute: Marks(high_mark=3, low_mark=4), "high_mark must be at least low_mark = 4, not 3"),
        (lambda mute: Marks(low_mark=-1), "low_mark must be at least 0, not -1"),
    ],
)
def test_misuse_is_refused(use: object, complaint: str) -> None:
    assert callable(use)
    with pytest.raises((LocalProtocolError, InvalidParametersError), match=complaint):
        use(graph("source step", "step sink"))
