"""``permitflow conform``: does a channel keep the rules of the specification?"""

import re
import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permitflow.cli.console import open_console, open_table, print_lines, print_table
from permitflow.cli.options import option, whole_number
from permitflow.cli.outcomes import Json, print_json, requires_extra, stop, unusable

if TYPE_CHECKING:
    from collections.abc import Callable

    from permitflow.testing import ChannelAdapter, PairAdapter, Report


_PLACE = re.compile(r"(?!.*\.py:)[^:/]+:[^:]+")


def conform(
    adapter: Annotated[
        str,
        typer.Argument(metavar="MODULE:ADAPTER", help="An adapter's class, in a module of this folder or installed."),
    ],
    pair: Annotated[
        bool, typer.Option("--pair", help="ADAPTER makes a pair of ends whose every step is made by hand.")
    ] = False,
    flow: Annotated[
        str, typer.Option(metavar="NAME", help="The protocol that it claims to obey; permits by default.")
    ] = "permits",
    rule: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this rule; may be repeated.")] = None,
    random_runs: Annotated[int, option(whole_number(least=1), "N", "Runs that Hypothesis draws; 60 by default.")] = 60,
    as_json: Json = False,
) -> None:
    """Check a channel against every rule of its protocol's specification.

    The channel may be of any library: an adapter says how to open it, send and receive
    (docs/guides/conformance-kit.md). For each rule: it holds; or it is broken, with the mistake in words and the
    shortest run that was found; or it is not applicable, because the channel lacks what the rule is about.

    \b
      permitflow conform my_channel:MyAdapter
      permitflow conform my_channel:MyAdapter --rule none-lost --rule cancelled-send
      permitflow conform permitflow.testing.kit.examples.queues:QueueChannel
      permitflow conform --flow stop-and-wait my_channel:MyAdapter

    Exit code 0: no rule is broken. 1: one is. 2: there is no such adapter, flow or rule.
    """
    from permitflow.errors import InvalidParametersError

    with requires_extra("testing"):
        from permitflow.testing import judge_adapter, judge_pair
    made = _load(adapter)
    asked: dict[str, Any] = {"flow": flow, "name": adapter, "only": rule or [], "random_runs": random_runs}
    try:
        report = judge_pair(_pair(made, adapter), **asked) if pair else judge_adapter(_channel(made, adapter), **asked)
    except InvalidParametersError as error:
        option = {"only": "--rule", "flow": "--flow"}.get(error.name)
        unusable(f"{option} {error.rule}, not {error.value!r}" if option else str(error))
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    stop(holds=report.conforms)


def _load(place: str) -> object:
    if not _PLACE.fullmatch(place):
        unusable(f"MODULE:ADAPTER must be as in my_channel:MyAdapter, not {place!r}")
    sys.path.insert(0, "")  # as python -m does: modules of this folder are found
    try:
        return resolve_name(place)
    except Exception as error:
        unusable(f"{place} cannot be imported: {type(error).__name__}: {error}")


def _channel(made: object, place: str) -> "type[ChannelAdapter]":
    from permitflow.testing import ChannelAdapter

    if not (isinstance(made, type) and issubclass(made, ChannelAdapter)):
        unusable(f"{place} is no class of permitflow.testing.ChannelAdapter; for a pair of ends, use --pair")
    return made


def _pair(made: object, place: str) -> "Callable[..., PairAdapter]":
    from permitflow.testing import ChannelAdapter

    if isinstance(made, type) and issubclass(made, ChannelAdapter):
        unusable(f"{place} is a channel as a whole, a permitflow.testing.ChannelAdapter; leave --pair away")
    if not callable(made):
        unusable(f"{place} makes nothing; --pair needs a callable that makes a permitflow.testing.PairAdapter")
    return made


def _print(report: "Report") -> None:
    console = open_console()
    table = open_table("rule", "", "what was found", wrap=("what was found",))
    for verdict in report.verdicts:
        outcome = verdict.outcome.value
        table.add_row(verdict.rule.id, outcome.upper() if verdict.is_broken else outcome, verdict.finding)
    print_table(console, table)
    broken = [f"\n{verdict.describe()}" for verdict in report.verdicts if verdict.is_broken]
    print_lines(console, *report.lacking(), *broken, f"\n{report.summary()}")
