"""What the graph of muters does beyond its models: repairs after any loss, marks, other processes, misuse."""

import random

import pytest

from permitflow.errors import InvalidParametersError, LocalProtocolError
from permitflow.mute import Marks, MuteGraph, Signal


def graph(*edges: str, marks: Marks | None = None) -> MuteGraph:
    """A graph with edges such as ``"source step"``: sources and sinks are known by their first letters."""
    made = MuteGraph()
    for name in dict.fromkeys(" ".join(edges).split()):
        if name.startswith("source"):
            made.add_source(name)
            made.start(name)
        elif name.startswith("sink"):
            made.add_muter(name, marks)
        else:
            made.add_relay(name)
    for edge in edges:
        made.connect(*edge.split())
    made.settle()
    return made


def test_an_unmute_of_a_stranger_changes_nothing() -> None:
    """Wallaroo's source calls ``_unmute`` once more."""
    mute = graph("source step")
    mute.add_remote("elsewhere")
    mute.connect("step", "elsewhere")
    mute.receive("step", "elsewhere", Signal("stranger", 2))
    assert mute.settle() == {}
    assert not mute.is_muted("source")


def test_a_source_does_not_read_before_it_is_started() -> None:
    mute = MuteGraph()
    mute.add_source("source")
    mute.add_muter("sink")
    mute.connect("source", "sink")
    mute.report("sink", 1)
    mute.settle()
    assert mute.muted_by("source") == {"source", "sink"}
    mute.start("source")
    mute.report("sink", 0)
    assert mute.settle() == {"source": False}


@pytest.mark.parametrize("seed", range(50))
def test_new_connections_repair_lost_repeated_and_late_signals(seed: int) -> None:
    draw = random.Random(seed)
    mute = graph("source a", "source b", "a c", "b c", "c sink1", "c sink2", "b sink2")
    for _ in range(60):
        if draw.random() < 0.4:
            mute.report(f"sink{draw.randrange(2) + 1}", draw.randrange(2))
        elif mute.in_flight:
            edge = draw.choice([*mute.in_flight])
            fate = draw.choice(("deliver", "lose", "repeat"))
            newest = mute.heard("source")
            if fate == "lose":
                mute.take(*edge)
            else:
                signal = mute.receive_signal(*edge)
                if fate == "repeat":
                    mute.receive(*edge, signal)
            assert all(mute.heard("source").get(muter, 0) >= epoch for muter, epoch in newest.items())
    for hop in ("c sink1", "c sink2", "b sink2", "a c", "b c", "source a", "source b"):
        mute.settle()
        mute.reconnect(*hop.split())
    mute.settle()
    assert mute.muted_by("source") == {name for name in ("sink1", "sink2") if mute.is_muting(name)}


def test_between_its_marks_a_muter_stays_as_it_is() -> None:
    """A backlog that swings between the marks sends nothing: no storm (wally #2912)."""
    mute = graph("source sink", marks=Marks(high_mark=99, low_mark=20))
    backlogs = [99, *[100, 21] * 1_000, 20, *[99, 21] * 1_000]
    assert sum(mute.report("sink", backlog) for backlog in backlogs) == 2


def test_a_muter_that_is_not_connected_mutes_whatever_its_backlog() -> None:
    mute = graph("source sink")
    mute.set_open("sink", False)
    assert mute.settle() == {"source": True}
    assert not mute.report("sink", 0)
    mute.report("sink", 5)
    assert not mute.set_open("sink", True)
    assert mute.report("sink", 0)


@pytest.mark.parametrize(("backlog", "unmutes"), [(1, True), (2, True), (3, False)])
def test_a_muter_that_opens_looks_at_its_low_mark(backlog: int, unmutes: bool) -> None:
    mute = graph("source sink", marks=Marks(high_mark=5, low_mark=2))
    mute.set_open("sink", False)
    mute.report("sink", backlog)
    assert mute.settle() == {"source": True}
    assert mute.set_open("sink", True) == unmutes
    assert mute.settle() == ({"source": False} if unmutes else {})


def test_a_reconnected_boundary_states_anew_who_mutes() -> None:
    """In Wallaroo a new connection loses the mutes of the old one."""
    mute = graph("source sink_boundary")
    mute.add_remote("worker2")
    mute.connect("sink_boundary", "worker2")
    mute.receive("sink_boundary", "worker2", Signal("out#1", 3))
    assert mute.settle() == {"source": True}
    mute.reconnect("sink_boundary", "worker2")  # the old process is gone; a new one says what holds now
    mute.receive("sink_boundary", "worker2", Signal("out#2", 1))
    assert mute.settle() == {}
    assert mute.muted_by("source") == {"out#2"}


def test_a_muter_that_is_gone_holds_nobody_once_all_paths_say_so() -> None:
    """It was behind another process, over two connections; signals that said so on the way up are lost."""
    mute = graph("source step", "step a", "step b")
    for boundary in ("a", "b"):
        mute.add_remote(f"{boundary} far end")
        mute.connect(boundary, f"{boundary} far end")
        mute.receive(boundary, f"{boundary} far end", Signal("out", 1))
    assert mute.settle() == {"source": True}
    mute.reconnect("a", "a far end")
    assert mute.settle() == {}
    mute.reconnect("b", "b far end")
    while "out" in mute.heard("step"):
        mute.receive_signal("step", "b")
    mute.reconnect("source", "step")
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


def test_signals_do_not_multiply_where_paths_part_and_join() -> None:
    levels = 20
    edges = [f"{left}{n} {right}{n + 1}" for n in range(levels) for left in "ab" for right in "ab"]
    mute = graph(*edges, f"a{levels} sink", f"b{levels} sink")
    mute.report("sink", 1)
    mute.settle()
    assert mute.signals == len(edges) + 2


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
