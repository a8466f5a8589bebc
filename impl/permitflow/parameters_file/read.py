"""Read a whole description."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.axes import AXIS_READERS, axis
from permitflow.parameters_file.chunk_table import read_chunks
from permitflow.parameters_file.quantities import duration, rate, whole
from permitflow.parameters_file.sections import Document, Section
from permitflow.protocol.frames import StatedParameters
from permitflow.protocol.parameters import Oversize
from permitflow.simulation.setting import Setting
from permitflow.simulation.sweep import Axis

__all__ = ["KEYS", "Description", "read_description"]

KEYS = {
    "row_permits": "row_count",
    "permit_batch": "batch",
    "max_chunk_cost": "max_chunk",
    "oversize": "oversize",
    "barrier_permits": "barrier_permits",
}
"""What the implementation's parameters are called in a file, as they are on the command line."""

_SECTIONS = ("upstream", "downstream", "chunks", "network", "producer", "consumer", "simulation", "sweep")


@dataclass(frozen=True)
class Description:
    """What a file says."""

    setting: Setting
    seed: int
    least_chunks: int | None
    """How many chunks to measure at least; None: as many as are usual."""
    axes: Sequence[Axis]
    """What to vary."""


def read_description(path: Path) -> Description:
    """Read and check a file.

    Raises:
        ParametersFileError: it cannot be read, or something in it cannot be meant; names key, value and line.
    """
    document = Document(path, _SECTIONS)
    upstream = document.section("upstream", tuple(KEYS.values()))
    downstream = document.section("downstream", (*KEYS.values(), "flush_idle"))
    upstream.required("row_count", whole, example="row_count = 32_768")
    simulation = document.section("simulation", ("seed", "chunks"))
    sweep = document.section("sweep", tuple(AXIS_READERS))
    return Description(
        setting=_setting(document, upstream, downstream),
        seed=simulation.read("seed", _seed) or 0,
        least_chunks=simulation.read("chunks", whole),
        axes=[found for name in sweep if (found := sweep.read(name, partial(axis, name)))],
    )


def _setting(document: Document, upstream: Section, downstream: Section) -> Setting:
    forward, back = _delays(document)
    try:
        return Setting(
            upstream=_stated(upstream),
            downstream=_stated(downstream),
            flush_idle=downstream.read("flush_idle", _flag) or False,
            chunks=read_chunks(document),
            forward_seconds=forward,
            return_seconds=back,
            **_rates(document),
        )
    except InvalidParametersError as error:
        # What is left to go wrong: a batch that leaves no room for any chunk, here or there.
        end = downstream if KEYS[error.name] in downstream else upstream
        end.refuse(KEYS[error.name], f"{error.rule.replace('row_permits', 'row_count')}; it is {error.value}")


def _stated(section: Section) -> StatedParameters:
    numbers = {name: section.read(key, whole) for name, key in KEYS.items() if name != "oversize"}
    oversize = section.read("oversize", _oversize)
    return StatedParameters(**numbers, oversize=None if oversize is None else oversize.value)


def _delays(document: Document) -> tuple[float, float]:
    """Seconds there and back."""
    network = document.section("network", ("rtt", "one_way", "forward", "back", "rate"))
    ways = [key for key in network if key != "rate"]
    if ways in (["rtt"], ["one_way"]):
        seconds = network.read(ways[0], duration) or 0.0
        return (seconds / 2, seconds / 2) if ways == ["rtt"] else (seconds, seconds)
    if ways and sorted(ways) != ["back", "forward"]:
        reason = "must be the only delay" if ways[1:] else "needs the other way too"
        network.refuse(ways[-1], f"{reason}; give rtt, or one_way, or forward and back")
    return network.read("forward", duration) or 0.0, network.read("back", duration) or 0.0


def _rates(document: Document) -> dict[str, float]:
    """Those that are stated; the others are unlimited."""
    sections = {
        "producer_rate": document.section("producer", ("rate",)),
        "consumer_rate": document.section("consumer", ("rate",)),
        "link_rate": document.section("network", ("rtt", "one_way", "forward", "back", "rate")),
    }
    return {name: found for name, section in sections.items() if (found := section.read("rate", rate)) is not None}


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise ValueError(f"must be true or false, not {given!r}")  # noqa: TRY004  # the reader's contract
    return given


def _seed(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise ValueError(f"must be a whole number, not {given!r}")  # noqa: TRY004  # the reader's contract
    return given


def _oversize(given: object) -> Oversize:
    try:
        return Oversize(given)  # type: ignore[arg-type]  # that is the question
    except ValueError:
        names = " or ".join(f'"{member.value}"' for member in Oversize)
        raise ValueError(f"must be {names}, not {given!r}") from None
