"""Graphs of stages from seeds: each begins with a shape that is known to be live or dead, and gets more around it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from typing import Final

from permitflow.stages import Overflow
from permitflow.stages.blueprint import (
    Arc,
    BalanceNode,
    BlockingClientNode,
    Blueprint,
    BoundaryNode,
    BroadcastNode,
    BufferNode,
    ChannelNode,
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

MOST_STAGES: Final = 12
DROPPING = [Overflow.DROP_OLDEST, Overflow.DROP_YOUNGEST_BUFFERED, Overflow.DROP_INCOMING, Overflow.CLEAR]


class Sketch:
    """A blueprint while it is drawn: each stage is joined to the next free ports."""

    def __init__(self, choose: Random) -> None:
        self.choose = choose
        self.stages: dict[str, Node] = {}
        self.arcs: list[Arc] = []
        self._outlets: dict[str, Iterator[int]] = {}
        self._inlets: dict[str, Iterator[int]] = {}

    def add(self, node: Node, *before: str) -> str:
        """Add a stage behind others; its name."""
        name = f"{node.kind}-{len(self.stages)}"
        self.stages[name] = node
        self._outlets[name], self._inlets[name] = count(), count()
        for each in before:
            self.join(each, name)
        return name

    def join(self, before: str, after: str) -> None:
        """Join the next outlet of one to the next inlet of the other."""
        self.arcs.append(Arc(before, after, outlet=next(self._outlets[before]), inlet=next(self._inlets[after])))

    def source(self, share_of_few: float = 0.05) -> str:
        """A source, endless but for a share of them."""
        few = self.choose.random() < share_of_few
        return self.add(SourceNode(self.choose.randint(1, 4) if few else None))

    def row(self, before: str, *nodes: Node) -> str:
        """Stages one behind the other; the last one."""
        for node in nodes:
            before = self.add(node, before)
        return before

    def sink(self, *before: str) -> None:
        """A sink for each."""
        for each in before:
            self.add(SinkNode(), each)

    def blueprint(self) -> Blueprint:
        return Blueprint(self.stages, tuple(self.arcs))

    # Stages by chance.

    def one(self, *nodes: Node) -> Node:
        return self.choose.choice(nodes)

    def store(self) -> Node:
        """Asks by itself, and loses nothing."""
        size = self.choose.randint(1, 3)
        return self.one(
            BufferNode(size),
            BufferNode(size),
            BoundaryNode(2 ** (size - 1)),
            ChannelNode(size + 1, self.choose.randint(1, size)),
        )

    def dropping(self) -> Node:
        return BufferNode(self.choose.randint(1, 3), self.choose.choice(DROPPING))

    def even(self) -> Node:
        """As many elements leave it as come."""
        return self.one(StageNode(), self.store())

    def uneven(self) -> Node:
        return self.one(
            StageNode(gives=(0, 1)),
            StageNode(takes=2),
            StageNode(takes=self.choose.randint(1, 3), gives=(2, 2)),
            StageNode(gives=(1, 2)),
            StageNode(gives=(0, None)),
            StageNode(takes=2, gives=(0, 1)),
        )

    def any_stage(self) -> Node:
        return self.one(
            self.even(), self.even(), self.uneven(), self.dropping(), ConflateNode(), ExpandNode(), UnboundedNode(4)
        )

    def some(self, before: str, most: int, make: Callable[[], Node]) -> str:
        """Up to so many stages behind one."""
        return self.row(before, *(make() for _ in range(self.choose.randint(0, most))))


def tree(s: Sketch) -> None:
    """No two ways lead from one stage to another: nothing can wait in a ring."""
    ends = [s.some(s.source(), 2, s.any_stage)]
    while len(s.stages) < 8:
        end = ends.pop(s.choose.randrange(len(ends)))
        match s.choose.randrange(3):
            case 0:
                ends.append(s.add(s.any_stage(), end))
            case 1:
                join = s.one(MergeNode(), MergePreferredNode(), ZipNode(), ConcatNode())
                ends.append(s.add(join, end, s.source()))
            case _:
                fan = s.add(s.one(BroadcastNode(), BalanceNode()), end)
                ends += [s.add(s.any_stage(), fan), s.add(s.any_stage(), fan)]
    s.sink(*ends)


def _loop(s: Sketch, join: Node, fan: Node, *arc: Node, first: bool = False, share_of_few: float = 0.05) -> None:
    """``first``: the arc comes to inlet 0."""
    before = s.some(s.source(share_of_few), 1, s.even)
    head = s.add(join)
    if not first:
        s.join(before, head)
    out = s.add(fan, s.some(head, 1, StageNode))
    back = s.row(out, *arc)
    s.join(back, head)
    if first:
        s.join(before, head)
    s.sink(s.some(out, 1, s.even))


def full_loop(s: Sketch) -> None:
    """What comes in is never fewer than what leaves."""
    arc = [s.even() for _ in range(s.choose.randint(0, 3))]
    _loop(s, MergeNode(), BroadcastNode(), *arc)


def growing_loop(s: Sketch) -> None:
    """More comes back than goes round."""
    most = s.choose.choice((2, 3, None))
    gives = (s.choose.randint(1, 2), most)
    _loop(
        s,
        s.one(MergeNode(), MergePreferredNode()),
        BroadcastNode(),
        StageNode(gives=gives),
        s.store(),
        first=s.choose.random() < 0.5,
    )


def shrinking_loop(s: Sketch) -> None:
    """Fewer come back."""
    node = s.one(
        StageNode(takes=2), StageNode(takes=3), StageNode(takes=3, gives=(2, 2)), StageNode(takes=2, gives=(0, 1))
    )
    arc = [node, s.store()]
    s.choose.shuffle(arc)
    _loop(s, MergeNode(), BroadcastNode(), *arc)


def filtering_loop(s: Sketch) -> None:
    """The data decide how many come back."""
    arc = [s.one(StageNode(gives=(0, 1)), StageNode(gives=(0, 2))), s.store()]
    s.choose.shuffle(arc)
    _loop(s, MergeNode(), BroadcastNode(), *arc)


def dropping_loop(s: Sketch) -> None:
    """The way back never blocks."""
    arc = [
        s.one(s.dropping(), s.dropping(), UnboundedNode(8), ConflateNode()),
        *([s.even()] if s.choose.random() < 0.5 else []),
    ]
    s.choose.shuffle(arc)
    _loop(s, MergeNode(), BroadcastNode(), *arc, share_of_few=0.6)


def balancing_loop(s: Sketch) -> None:
    """Some elements leave, others come back."""
    arc = [s.even() for _ in range(s.choose.randint(0, 2))]
    _loop(s, s.one(MergeNode(), MergePreferredNode()), BalanceNode(), *arc, share_of_few=0.5)


def preferring_loop(s: Sketch) -> None:
    """What comes back overtakes the source."""
    _loop(s, MergePreferredNode(), BroadcastNode(), *[s.store() for _ in range(s.choose.randint(1, 2))], first=True)


def zip_loop(s: Sketch) -> None:
    """Each pair needs one that comes back: none is there at first."""
    _loop(s, ZipNode(), BroadcastNode(), *[s.even() for _ in range(s.choose.randint(0, 3))])


def kicked_loop(s: Sketch) -> None:
    """The first elements come from outside; they need their places."""
    first = s.choose.randint(1, 3)
    head = s.add(ZipNode(), s.source())
    out = s.add(BroadcastNode(), head)
    kicked = s.add(ConcatNode(), s.add(SourceNode(first)))
    s.join(s.row(out, *[BufferNode(s.choose.randint(1, 3)) for _ in range(s.choose.randint(1, 2))]), kicked)
    s.join(kicked, head)
    s.sink(s.some(out, 1, s.even))


def diamond(s: Sketch) -> None:
    """Branches of equal length or not, in which nothing is lost."""
    fan = s.add(BroadcastNode(), s.some(s.source(), 1, s.even))
    ends = [s.some(fan, 2, s.even) for _ in range(s.choose.randint(2, 3))]
    s.sink(s.add(s.one(ZipNode(), MergeNode(), MergePreferredNode()), *ends))


def grouping_diamond(s: Sketch) -> None:
    """One branch needs several elements before it gives as many."""
    takes = s.choose.randint(2, 4)
    fan = s.add(BroadcastNode(), s.source())
    ahead = s.row(fan, *(BufferNode(s.choose.randint(1, 2)) for _ in range(s.choose.randint(0, 2))))
    group = s.some(s.add(StageNode(takes=takes, gives=(takes, takes)), fan), 1, s.even)
    s.sink(s.add(ZipNode(), ahead, group))


def filtering_diamond(s: Sketch) -> None:
    """The branches give unequally many."""
    fan = s.add(BroadcastNode(), s.source())
    uneven = s.some(s.add(s.uneven(), fan), 1, s.even)
    loose = s.choose.random() < 0.15
    other = s.add(s.one(s.dropping(), UnboundedNode(8)), fan) if loose else s.some(fan, 2, s.store)
    s.sink(s.add(MergeNode() if s.choose.random() < 0.1 else ZipNode(), uneven, other))


def balanced_diamond(s: Sketch) -> None:
    """Each element goes one way, and pairs are made again."""
    fan = s.add(BalanceNode(), s.some(s.source(), 1, s.even))
    ends = [s.some(fan, 2, s.even) for _ in range(2)]
    s.sink(s.add(s.one(ZipNode(), ZipNode(), MergeNode()), *ends))


def concat_of_branches(s: Sketch) -> None:
    """The second branch has its turn when the first one has ended, which waits for it."""
    fan = s.add(BalanceNode() if s.choose.random() < 0.1 else BroadcastNode(), s.source())
    first = s.some(fan, 1, s.even)
    loose = s.choose.random() < 0.1
    second = s.add(s.one(s.dropping(), ConflateNode()), fan) if loose else s.some(fan, 2, s.even)
    s.sink(s.add(ConcatNode(), first, second))


def loose_diamond(s: Sketch) -> None:
    """A branch that gathers or repeats."""
    fan = s.add(BroadcastNode(), s.source())
    loose = s.some(s.row(fan, s.one(ConflateNode(), ExpandNode())), 1, s.even)
    s.sink(s.add(s.one(ZipNode(), ZipNode(), MergeNode()), loose, s.some(fan, 1, s.store)))


def echo(s: Sketch) -> None:
    """A client that writes before it reads."""
    client = s.add(BlockingClientNode(s.choose.randint(4, 10), s.choose.randint(0, 1)))
    server = [s.one(BufferNode(s.choose.randint(1, 2)), StageNode(), ChannelNode(2, 1)) for _ in range(2)]
    s.join(s.some(s.row(client, *server), 1, s.even), client)


def two_sinks(s: Sketch) -> None:
    """A part that can stand still beside one that moves on."""
    fan = s.add(BroadcastNode(), s.source())
    s.sink(s.some(fan, 1, s.even))
    inner = s.add(BroadcastNode(), s.row(fan, s.one(s.dropping(), UnboundedNode(8))))
    s.sink(s.add(ZipNode(), s.add(StageNode(gives=(0, 1)), inner), s.some(inner, 1, s.store)))


def paced_loop(s: Sketch) -> None:
    """Work that ends goes round at the pace of an endless source: the loop may lose its last element, or keep it."""
    head = s.add(s.one(MergeNode(), MergeNode(), MergePreferredNode(), ConcatNode()))
    for _ in range(s.choose.randint(1, 2)):
        work = s.add(SourceNode(s.choose.randint(0, 6)))
        s.join(s.some(work, 1, s.even), head)
    ticks = s.some(s.add(SourceNode()), 1, s.any_stage)
    lossy = [StageNode(gives=(0, 1)), StageNode(takes=2), StageNode(takes=2, gives=(2, 2)), ExpandNode(), StageNode()]
    first = s.choose.random() < 0.5
    pace = s.one(ZipNode(), ZipNode(), ZipNode(), ConcatNode())
    before = s.some(head, 1, lambda: s.one(*lossy))
    paced = s.add(pace, *((ticks, before) if first else (before, ticks)))
    fan = s.add(s.one(BroadcastNode(), BroadcastNode(), BalanceNode()), paced)
    back = s.row(fan, *s.choose.sample([s.one(*lossy), s.one(UnboundedNode(8), s.dropping(), s.store())], 2))
    s.join(back, head)
    s.sink(s.some(fan, 1, s.even))


def soup(s: Sketch) -> None:
    """Anything: fans, joins and ways back by chance."""
    ends = [s.source() for _ in range(s.choose.randint(1, 2))]
    heads: list[str] = []
    for _ in range(s.choose.randint(2, 5)):
        end = ends.pop(s.choose.randrange(len(ends)))
        match s.choose.randrange(4):
            case 0:
                ends.append(s.add(s.any_stage(), end))
            case 1:
                fan = s.add(s.one(BroadcastNode(), BroadcastNode(), BalanceNode()), end)
                ends += [fan, fan]
            case 2 if ends:
                other = ends.pop(s.choose.randrange(len(ends)))
                ends.append(s.add(s.one(MergeNode(), ZipNode(), MergePreferredNode(), ConcatNode()), end, other))
            case 3 if not heads:
                heads.append(s.add(s.one(MergeNode(), MergeNode(), MergePreferredNode()), end))
                ends.append(heads[0])
            case _:
                ends.append(s.add(s.any_stage(), end))
    s.choose.shuffle(ends)
    for head in heads:
        if len(ends) < 2:
            fan = s.add(BroadcastNode(), ends.pop())
            ends += [fan, fan]
        s.join(s.some(ends.pop(), 1, s.any_stage), head)
    s.sink(*ends)


_SHAPES: Final = (
    tree,
    full_loop,
    growing_loop,
    shrinking_loop,
    filtering_loop,
    dropping_loop,
    balancing_loop,
    preferring_loop,
    zip_loop,
    kicked_loop,
    diamond,
    grouping_diamond,
    filtering_diamond,
    balanced_diamond,
    concat_of_branches,
    loose_diamond,
    echo,
    two_sinks,
    soup,
    # Of these, one in two lives.
    kicked_loop,
    grouping_diamond,
)
SHAPES: Final[Sequence[tuple[str, Callable[[Sketch], None]]]] = [
    (shape.__name__.replace("_", " "), shape) for shape in _SHAPES
]


def generated(seed: int) -> tuple[str, Blueprint]:
    """The name of a shape, and a graph that begins with it; every other tree is a paced loop."""
    choose = Random(seed)
    rounds, position = divmod(seed, len(SHAPES))
    name, draw = ("paced loop", paced_loop) if rounds % 2 and not position else SHAPES[position]
    while True:
        sketch = Sketch(choose)
        draw(sketch)
        if 3 <= len(sketch.stages) <= MOST_STAGES:
            return name, sketch.blueprint()
