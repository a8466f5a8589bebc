"""``permitflow explain``: runs and state graphs to look at."""

import webbrowser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from permitflow.tracing.reader import trace_files
from permitflow_tools.cli.check import answer_for
from permitflow_tools.cli.check_graph import judged
from permitflow_tools.cli.console import late_progress
from permitflow_tools.cli.options import (
    AllowTruncated,
    Belonging,
    ChunkRows,
    FlushIdle,
    MaxChunkCost,
    PermitBatch,
    RowPermits,
    chosen,
    given_options,
    option,
    readable_or_told,
    refuse_strange,
    whole_number,
    writable,
)
from permitflow_tools.cli.outcomes import Json, print_json, unusable
from permitflow_tools.cli.output import STANDARD_OUTPUT, is_special, require_apart, write_files
from permitflow_tools.cli.own import OwnParameters, is_place, own_run, read_modules
from permitflow_tools.cli.permits import graph_of, run_of, setting_of
from permitflow_tools.cli.trace import read_channels
from permitflow_tools.parameters.read import description_of, is_toml
from permitflow_tools.parameters.sections import TomlFile, read_toml

if TYPE_CHECKING:
    from permitflow_tools.explain.blueprint_page import JudgedGraph
    from permitflow_tools.explain.run import ExplainedRun
    from permitflow_tools.explain.state_graph import StateGraph

_OF_PLAYING = frozenset({"--play", "--output", "--open", "--json"})
_DEFAULT_PAGE = Path("permitflow-explain.html")
# What other commands draw, and this one does not.
_OTHER_FORMATS = frozenset({".svg", ".png", ".pdf"})
_OPTIONS = (
    Belonging(
        ("--row-permits", "--permit-batch", "--max-chunk-cost", "--chunk-rows", "--flush-idle"),
        ("numbers",),
        "numbers of your own; leave it or the files away",
    ),
    Belonging(("--barriers",), ("numbers", "file"), "a permit channel with numbers of your own, or of a file"),
    Belonging(
        ("--graph",),
        ("numbers", "file", "model"),
        "numbers of your own, a file with them, or a model; a recording has no graph",
    ),
    Belonging(("--channel", "--allow-truncated"), ("trace",), "a trace: name its files too"),
    Belonging(("--parameters", "--max-states"), ("model",), "a model of your own: name it, as in my_protocol:SYSTEM"),
)


def explain(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE | MODULE:SYSTEM",
            parser=readable_or_told,
            help="Trace files (.jsonl, .parquet) or folders of them, of one run; a channel, or a graph "
            "of stages, described in TOML; a model of your own, in a module of this folder or installed.",
        ),
    ] = None,
    row_permits: RowPermits = None,
    permit_batch: PermitBatch = None,
    max_chunk_cost: MaxChunkCost = None,
    chunk_rows: ChunkRows = None,
    flush_idle: FlushIdle = False,
    barriers: Annotated[
        bool, typer.Option("--barriers", help="Barriers and watermarks too, with one permit each.")
    ] = False,
    graph: Annotated[
        bool, typer.Option("--graph", help="All states and steps of a small channel, at most 500 states.")
    ] = False,
    channel: Annotated[str | None, typer.Option(metavar="NAME", help="Which channel of the trace.")] = None,
    allow_truncated: AllowTruncated = False,
    parameters: OwnParameters = None,
    max_states: Annotated[
        int, option(whole_number(least=1), "N", "Of a model of your own: visit no more states. Default: 2,000,000.")
    ] = 2_000_000,
    play: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A page to play with, numbers and steps, as permit-channel; a wrong name lists them.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            writable,
            "FILE",
            f"The page to write; - is standard output. Default: {_DEFAULT_PAGE}, unless --svg is given.",
            "--output",
            "-o",
        ),
    ] = None,
    svg: Annotated[Path | None, option(writable, "FILE", "A drawing to write: one line for each step.")] = None,
    opens: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Show it: a deadlock, a recorded run of any protocol or a state graph as one web page.

    The page holds everything it needs and uses no network: send it, project it, print it. It steps through a run:
    where each chunk and each permit is, which action was taken and where the specification says so, what can happen
    next, and which guard is false where it can not.

    \b
      permitflow explain --row-permits 8 --permit-batch 3 --max-chunk-cost 7               a run into a deadlock
      permitflow explain --row-permits 8 --permit-batch 3 --max-chunk-cost 7 --svg x.svg   the same as a drawing
      permitflow explain --row-permits 2048 --permit-batch 256 -o live.html                a window filled and drained
      permitflow explain --row-permits 3 --permit-batch 2 --max-chunk-cost 3 --graph       all states
      permitflow explain orders.toml                                                       the channel of a file
      permitflow explain loop.toml                                                         the graph of a file
      permitflow explain run/ --channel orders/0                                           a recording, up to a fault
      permitflow explain my_protocol:SYSTEM --parameters SMALL                             a model of your own
      permitflow explain --play permit-channel --open                                      your own steps

    A model of your own is explored: what is shown is a shortest run into a broken invariant or a deadlock, or a run
    that never comes to what was promised; as a table, and as the page. In my_protocol.py:

    \b
      from permitflow_model.kernel.system import Action, System, require
      def take(state, room):        # the next state: a number, a tuple or a NamedTuple
          require(state < room)     # where this is false, the action is impossible
          return state + 1
      SYSTEM = System("Shop", lambda room: 0, (Action("take", take),), {"Few": lambda state, room: state < 9})
      SMALL = 3                     # the parameters, here the room

    Where a page is not of a recording, its reader may take other steps: what is possible is a button.

    Exit code 0: written, whatever it shows. 2: unusable input.
    """
    given = given_options(context)
    page = output or (None if svg else _DEFAULT_PAGE)
    if play is not None:
        if strange := [name for name in given if name not in _OF_PLAYING]:
            unusable(f"{strange[0]}: --play has its own numbers; leave one of the two away")
        if files:
            unusable(f"{files[0]} and --play are two pages; leave one of them away")
        _require_pages(page, None, opens=opens)
        _play(play, page or _DEFAULT_PAGE, opens=opens, as_json=as_json)
        return
    subject = _Subject.of(files or [])
    refuse_strange(given, subject.kind, _OPTIONS)
    if subject.kind == "numbers" and not any(name in some.options for some in _OPTIONS for name in given):
        unusable(
            "nothing to explain: name trace files, a channel in TOML or a model of your own, or give numbers with "
            "--row-permits and --permit-batch"
        )
    _require_pages(page, svg, opens=opens)
    require_apart({"--output": page, "--svg": svg}, subject.inputs())
    shown: ExplainedRun | StateGraph | JudgedGraph
    table = ""
    if subject.described is not None and subject.kind == "stages":
        shown = _judged(subject.described)
    elif subject.kind == "trace":
        shown = _recorded(subject.named, channel, allow_truncated)
    elif subject.kind == "model":
        shown, table = own_run(str(subject.named[0]), parameters, with_graph=graph, most_states=max_states)
        require_apart({"--output": page, "--svg": svg}, read_modules())
    else:
        if subject.described is not None:
            description = description_of(subject.described)
            require_apart({"--output": page, "--svg": svg}, description.inputs)
            setting = description.setting
        else:
            setting = setting_of(row_permits, permit_batch, max_chunk_cost, chunk_rows, flush_idle=flush_idle)
        shown = (
            graph_of(setting, with_barriers=barriers) if graph else run_of(answer_for(setting), with_barriers=barriers)
        )
    if table and not as_json:
        # What is written to standard output stands there alone.
        typer.echo(table, err=STANDARD_OUTPUT in (page, svg))
    _write(shown, page, svg, as_json=as_json)
    if opens and page is not None:
        _open(page)


class _Subject(NamedTuple):
    """What is shown."""

    kind: str
    """``numbers``, ``model``, ``file`` (a channel), ``stages`` (a graph) or ``trace``."""
    named: Sequence[Path]
    described: TomlFile | None

    @classmethod
    def of(cls, named: Sequence[Path]) -> "_Subject":
        """Decide by the first file; end the command if more than one is named of a kind that is shown alone."""
        if len(named) == 2 and str(named[0]) == "graph" and is_toml(named[1]):
            named = named[1:]  # as for `permitflow check`
        if not named:
            return cls("numbers", named, None)
        if not is_place(named[0]) and not is_toml(named[0]):
            return cls("trace", named, None)
        described = None if is_place(named[0]) else read_toml(named[0])
        if len(named) > 1:
            unusable(f"{named[0]} is shown alone: leave {named[1]} away")
        return cls("model" if described is None else "stages" if described.is_graph else "file", named, described)

    def inputs(self) -> Iterable[Path]:
        """The files that are read."""
        return (file for path in self.named for file in trace_files(path)) if self.kind == "trace" else self.named


def _require_pages(page: Path | None, svg: Path | None, *, opens: bool) -> None:
    """Refuse names of files that tell of another format."""
    if opens and (page is None or is_special(page)):
        unusable("--open shows a page: name a file with --output, or leave --svg and - away")
    if page is not None and page.suffix.lower() in _OTHER_FORMATS:
        unusable(f"--output writes a web page, not {page}: name a file .html, or use --svg FILE")
    if svg is not None and svg.suffix.lower() in (_OTHER_FORMATS - {".svg"} | {".html"}):
        unusable(f"--svg writes an SVG drawing, not {svg}: name a file .svg")


def _open(page: Path) -> None:
    if not webbrowser.open(page.resolve().as_uri()):
        typer.echo(f"--open: no browser was found; open {page} in one", err=True)


def _play(name: str, page: Path, *, opens: bool, as_json: bool) -> None:
    from permitflow_tools.explain.playground import play_page
    from permitflow_tools.explain.playgrounds import PLAYGROUNDS

    playground = PLAYGROUNDS[chosen("--play", [name], PLAYGROUNDS, "page")[0]]
    with late_progress("finding all states") as report:
        made = play_page(playground, report=report)
    write_files({page: made})
    if as_json:
        print_json({"title": playground.title, "files": [str(page)]})
    else:
        typer.echo(f"written: {page}", err=page == STANDARD_OUTPUT)
    if opens:
        _open(page)


def _recorded(files: Sequence[Path], name: str | None, allow_truncated: bool) -> "ExplainedRun":
    from permitflow_testing.traces import judge
    from permitflow_tools.explain.looks.table import look_of
    from permitflow_tools.explain.run import recorded_run

    channels = read_channels(files, [name] if name else [], allow_truncated)
    if len(channels) > 1:
        names = [channel.channel for channel in channels]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        unusable(f"the trace holds {len(names)} channels; choose one with --channel: {', '.join(names[:8])}{more}")
    (channel,) = channels
    verdict = judge(channel, keep_path=True)
    parameters = verdict.subject.parameters(channel)
    start = verdict.subject.explanation(parameters, channel.ends, True).start().state
    return recorded_run(verdict, look_of(verdict.subject.system.module), parameters, start)


def _judged(described: TomlFile) -> "JudgedGraph":
    from permitflow_tools.explain.blueprint_page import JudgedGraph
    from permitflow_tools.parameters.graph import described_graph

    graph = described_graph(described)
    return JudgedGraph(graph.about.title or described.path.name, graph.blueprint, judged(graph))


def _write(
    shown: "ExplainedRun | StateGraph | JudgedGraph", page: Path | None, drawing: Path | None, *, as_json: bool
) -> None:
    from permitflow_tools.explain.blueprint_page import JudgedGraph, blueprint_drawing, blueprint_page
    from permitflow_tools.explain.run_page import page_of, storyboard
    from permitflow_tools.explain.state_graph import StateGraph, graph_drawing, graph_page, graph_sentence

    verdict: str
    sentence: str
    made: Sequence[tuple[Path | None, Callable[[Any], str]]]
    if isinstance(shown, StateGraph):
        verdict, sentence = shown.verdict, graph_sentence(shown)
        made = ((page, graph_page), (drawing, graph_drawing))
    elif isinstance(shown, JudgedGraph):
        verdict, sentence = shown.found.verdict, shown.found.reason
        made = ((page, blueprint_page), (drawing, blueprint_drawing))
    else:
        verdict, sentence = shown.verdict.value, shown.sentence
        made = ((page, page_of), (drawing, storyboard))
    try:
        contents = {path: make(shown) for path, make in made if path}
    except ModuleNotFoundError as error:
        unusable(f"--svg: {error}; install it, or write a page, which does without it")
    write_files(contents)
    if as_json:
        print_json({"verdict": verdict, "sentence": sentence, "files": [str(path) for path in contents]})
        return
    is_piped = STANDARD_OUTPUT in contents
    typer.echo(f"{verdict}: {sentence}", err=is_piped)
    for path in contents:
        typer.echo(f"written: {path}", err=is_piped)
