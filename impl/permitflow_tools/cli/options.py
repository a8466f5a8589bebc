"""Options that several commands take, and parsers of values: a complaint names the option, the value and the rule.

The parsers are those that read the same values from files: click's own types would say the same rule in other words.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import typer

from permitflow.carriers.addresses import parsed, scheme_of, several
from permitflow.errors import InvalidParametersError
from permitflow.flows.adaptive_window import require_latency
from permitflow_tools.cli.outcomes import unusable
from permitflow_tools.cli.output import STANDARD_OUTPUT
from permitflow_tools.parameters import quantities
from permitflow_tools.parameters.read import STANDARD_INPUT, read_axis
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, WeightedSizes
from permitflow_tools.simulation.setting import Axis

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

MOST = quantities.MOST_COUNT
_MOST_NUMBER = quantities.MOST_SECONDS  # of a number that is no count: most are seconds
# Of one stream.  Each takes kilobytes before anything flows, so a typing error could take all memory.
_MOST_CHANNELS = 100_000
_MOST_SHOWN = 20  # names of which none is like the one that is unknown


@dataclass(frozen=True)
class StreamName:
    """A stream and into how many channels it is cut."""

    name: str
    channels: int


def option(parser: Callable[[str], object], metavar: str, text: str, *names: str) -> Any:
    """An option whose value a function parses; ``text`` is its help, which may tell the default.

    ``names``: as it is written; by default that of the parameter.
    """
    return typer.Option(*names, parser=parser, metavar=metavar, help=text, show_default="efault" not in text)


def whole_number(*, least: int, most: int = MOST) -> Callable[[str], int]:
    """A parser of whole numbers from ``least`` up to ``most``; 8,192 and 8_192 are understood."""

    def parse(text: str) -> int:
        count = _understood(partial(quantities.whole, least=least), str(text))
        if count > most:
            raise typer.BadParameter(f"must be at most {most:,}, not {count:,}")
        return count

    return parse


def one_of(kind: type[Choice]) -> Callable[[str | Choice], Choice]:
    """A parser of the members of an enumeration, by their values."""

    def parse(text: str | Choice) -> Choice:
        try:
            return kind(text)
        except ValueError:
            *names, last = (member.value for member in kind)
            raise typer.BadParameter(f"must be {', '.join(names)} or {last}, not {text!r}") from None

    return parse


def number(text: str | float) -> float:
    """Parse a number that is not below 0, as in 0.1; of seconds, say."""
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, not {text!r}") from None
    if not 0 <= value <= _MOST_NUMBER:  # NaN neither
        raise typer.BadParameter(f"must be a number from 0 to {_MOST_NUMBER:,}, not {text!r}")
    return value


def above_zero(read: Callable[[Any], float]) -> Callable[[str], float]:
    """A parser of numbers that leaves 0 out."""

    def parse(text: str) -> float:
        if not (value := read(text)) > 0:
            raise typer.BadParameter(f"must be above 0, not {text!r}")
        return value

    return parse


def fitting(read: Callable[[Any], T], require: Callable[[T], object]) -> Callable[[Any], T]:
    """A parser whose values the library's own rule must let pass."""

    def parse(text: Any) -> T:
        value = read(text)
        try:
            require(value)
        except InvalidParametersError as error:
            raise typer.BadParameter(f"{error.rule}, not {text!r}") from None
        return value

    return parse


def readable(text: str | Path) -> Path:
    """Parse the name of a file to read; ``-`` is standard input."""
    return STANDARD_INPUT if str(text) == "-" else Path(text)


def readable_or_told(text: str | Path) -> Path:
    """As ``readable``; a number that stands alone is told to be an option's value."""
    path = readable(text)
    if str(path).isdecimal() and not path.exists():
        raise typer.BadParameter(f"numbers are options, as in --row-permits {path}")
    return path


def writable(text: str | Path) -> Path:
    """Parse the name of a file to write; ``-`` is standard output."""
    return STANDARD_OUTPUT if str(text) == "-" else Path(text)


def folder(text: str | Path) -> Path:
    """Parse the path of a folder; an empty one is a variable that was not set, not the folder one happens to be in."""
    if not str(text).strip():
        raise typer.BadParameter("must be a folder, not empty")
    return Path(text)


def folder_or_database(text: str) -> str:
    """Parse the place of a store: a folder, or the address of a database in PostgreSQL."""
    if is_database(str(text)):
        return str(text)
    if "://" in str(text):  # a slip of the pen, which would be a folder of this name
        scheme = str(text).partition("://")[0]
        raise typer.BadParameter(f"must be a folder, or begin with postgresql://, not with {scheme}://")
    return str(folder(text))


def is_database(text: str) -> bool:
    """Is it the address of a database in PostgreSQL?"""
    return text.startswith(("postgresql:", "postgres:"))


host_and_port: Callable[[Any], str] = fitting(str, partial(parsed, least_port=0))
"""Parses an address to listen at, as in ``127.0.0.1:50051``; port 0 means any free one."""

exchange_addresses: Callable[[Any], str] = fitting(str, several)
"""Parses the address of an exchange to dial, or those of several with commas between them."""


def http_address(text: str) -> str:
    """Parse an address to listen at for HTTP, which has no scheme."""
    if scheme := scheme_of(str(text)):
        raise typer.BadParameter(f"must be HOST:PORT without {scheme}, not {text!r}")
    return host_and_port(text)


def stream_name(text: str) -> StreamName:
    """Parse a stream, as in ``orders`` or, with its number of channels, ``orders:4``."""
    name, colon, count = text.rpartition(":")
    if not colon:
        name, count = text, "1"
    if not name.isprintable():
        raise typer.BadParameter(f"must be a name that can be shown on one line, not {text!r}")
    if any(map(str.isspace, name)):
        raise typer.BadParameter(f"must be a name without blanks, not {text!r}")
    if not name or not count.isdecimal() or int(count) < 1:
        raise typer.BadParameter(f"must be NAME or NAME:N with at least one channel, as in orders:4, not {text!r}")
    if len(count) > len(str(_MOST_CHANNELS)) or int(count) > _MOST_CHANNELS:
        raise typer.BadParameter(f"may have at most {_MOST_CHANNELS:,} channels, not {count} as in {text!r}")
    return StreamName(name, int(count))


def duration(text: str | float) -> float:
    """Parse a duration, as in ``40ms``, into seconds; a number is seconds already."""
    return text if isinstance(text, float) else _understood(quantities.duration, text)


latency = fitting(duration, require_latency)
"""Parses a latency to which a window adapts, into seconds."""


def size_in_bytes(text: str | int) -> int:
    """Parse a size of at least a byte, as in ``16MiB``; a number is bytes already."""
    value = text if isinstance(text, int) else _understood(quantities.size, text)
    if value < 1:
        raise typer.BadParameter(f"must be at least 1B, not {text!r}")
    return value


def rows_per_second(text: str) -> float:
    """Parse a rate, as in ``1_000_000`` or ``unlimited``."""
    return _understood(quantities.rate, text)


def axis(text: str) -> Axis:
    """Parse a varied parameter, as in ``row_permits=256..65536:x2``."""
    return _understood(read_axis, text)


def distinct(axes: Sequence[Axis]) -> Sequence[Axis]:
    """The axes; ends the command if one of them comes twice."""
    names = [axis.name for axis in axes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        unusable(f"--sweep: {twice} is varied twice; name all of its values in one --sweep")
    return axes


def share(text: str | float) -> float:
    """Parse a share above 0 and up to 1, as in ``0.99`` or ``99%``."""
    given = str(text)
    try:
        value = float(given.removesuffix("%")) / (100 if given.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise typer.BadParameter(f"must be a share above 0 and up to 1, as in 0.99 or 99%, not {given!r}")
    return value


def chunk_sizes(text: str) -> ChunkSizes:
    """Parse rows of chunks, as in ``1024`` or, equally often, ``1,64,1024``."""
    try:
        return WeightedSizes(sorted({int(part) for part in str(text).split(",")}))
    except InvalidParametersError as error:
        raise typer.BadParameter(f"{error.rule}, not {text!r}") from None
    except ValueError:
        raise typer.BadParameter(f"must be whole numbers separated by commas, as in 1,3,5, not {text!r}") from None


def _understood(reader: Callable[[str], T], text: str) -> T:
    try:
        return reader(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def given_options(context: typer.Context) -> list[str]:
    """The options that the user has written, in the order of the help."""
    sources = ((each.opts[0], context.get_parameter_source(each.name or "")) for each in context.command.params)
    return [name for name, source in sources if name.startswith("-") and source and source.name == "COMMANDLINE"]


class Belonging(NamedTuple):
    """Options of a command that has several subjects, and which of these they are about."""

    options: tuple[str, ...]
    subjects: tuple[str, ...]
    told: str
    """What they belong to, and what to do."""


def refuse_strange(given: Sequence[str], subject: str, options: Iterable[Belonging]) -> None:
    """End the command if an option that the user has written is not about this subject."""
    for some in options:
        if subject not in some.subjects and (strange := next((name for name in given if name in some.options), "")):
            unusable(f"{strange} belongs to {some.told}")


def chosen(option: str, names: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """The known names that are named or fit a pattern such as ``life-*``, in the known order; all if none is named.

    Ends the command if a name is unknown, or nothing fits a pattern.
    """
    known, names = list(known), list(names)
    if unknown := [given for given in names if not any(fnmatchcase(name, given) for name in known)]:
        near = get_close_matches(unknown[0], known, n=3, cutoff=0.5)
        more = f" and {len(known) - _MOST_SHOWN:,} more" if len(known) > _MOST_SHOWN else ""
        there = f"there are {', '.join(known[:_MOST_SHOWN])}{more}"
        advice = f"did you mean {' or '.join(near)}?" if near else there
        unusable(f"{option}: there is no {what} {unknown[0]!r}; {advice}")
    return [name for name in known if not names or any(fnmatchcase(name, given) for given in names)]


def rows(text: str, *, least: int = 1) -> Any:
    """An option of a number of rows, or of permits for them."""
    return option(whole_number(least=least), "ROWS", text)


RowPermits: TypeAlias = Annotated[int | None, rows("The most rows in the channel at once.")]

PermitBatch: TypeAlias = Annotated[
    int | None, rows("The receiver returns row permits once it holds this many. Default: an eighth of them.")
]

MaxChunkCost: TypeAlias = Annotated[
    int | None,
    rows("The most row permits a chunk takes; a larger one is split. Default: row permits less permit batch."),
]

ChunkRows: TypeAlias = Annotated[
    ChunkSizes | None,
    option(
        chunk_sizes,
        "ROWS,...",
        "Only chunks with these rows are sent, whole unless another option splits them. Default: any number.",
    ),
]

FlushIdle: TypeAlias = Annotated[
    bool, typer.Option("--flush-idle", help="An idle receiver returns less than a permit batch (permitflow's own).")
]

Sweep: TypeAlias = Annotated[
    list[Axis] | None,
    option(axis, "NAME=VALUES", "Vary this: 1,16,256 or 256..65536:x2 or 1..9:+2; may be repeated."),
]

SweepCsv: TypeAlias = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the sweep as CSV.", dir_okay=False)
]

SweepPlot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw the sweep: .html, .svg, .png or .pdf, by the name.", dir_okay=False
    ),
]

AllowTruncated: TypeAlias = Annotated[
    bool, typer.Option("--allow-truncated", help="Leave out a half-written last line, and take what comes before.")
]

DescribedChannel: TypeAlias = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        parser=readable_or_told,
        help="A channel described in TOML, as permitflow check --help shows it. - is standard input.",
    ),
]
