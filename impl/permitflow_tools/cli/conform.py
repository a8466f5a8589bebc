"""``permitflow conform``: does a channel keep the rules of the specification?"""

import os
import re
import sys
import threading
from contextlib import contextmanager, nullcontext, redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from textwrap import fill, wrap
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from permitflow.errors import printable
from permitflow_tools.cli.console import open_console, print_lines
from permitflow_tools.cli.interrupts import signalled_exit_code
from permitflow_tools.cli.options import above_zero, chosen, number, option, whole_number, writable
from permitflow_tools.cli.outcomes import ExitCode, Json, complain, failed, print_json, requires_extra, stop, unusable
from permitflow_tools.cli.own import imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from permitflow_testing import ChannelAdapter, ConformanceReport, PairAdapter, RuleVerdict
    from permitflow_testing.foreign.driver import Driver

MOST_NAMES = 3
"""Adapters of a module that are named, if none is spelt like the one that is missing."""

_OUTCOME_WIDTH = len("not applicable")
_LEAST_WIDTH = 30
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 1.0
"""The time from a signal until a command that goes on is ended."""

_PLACE = re.compile(r"(?!.*\.py:)[^:/]+:[^:]+")


def conform(
    adapter: Annotated[
        str | None,
        typer.Argument(metavar="MODULE:ADAPTER", help="An adapter's class, in a module of this folder or installed."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Instead of an adapter: a driver in any language, as in 'node driver.js'."
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(metavar="END", help="With --command: sender or receiver. Default: each that it has."),
    ] = None,
    dial: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="With --command: dial the driver's end, which listens there."),
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="CARRIER",
            help="With --command: let the driver's end dial over tcp or grpc. Default: the first that it has.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        option(writable, "FILE", "With --command: write every run, as seen on the wire; trace validate judges them."),
    ] = None,
    limit_seconds: Annotated[
        float | None,
        option(above_zero(number), "SECONDS", "With --command: the longest wait for an answer. Default: 10."),
    ] = None,
    limit_minutes: Annotated[
        float | None,
        option(above_zero(number), "MINUTES", "With --command: the longest time for an end's rules. Default: 60."),
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="ADAPTER makes a pair of ends whose every step is made by hand.")
    ] = False,
    flow: Annotated[str, typer.Option(metavar="NAME", help="The protocol that it claims to obey.")] = "permits",
    rule: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this rule; may be repeated.")] = None,
    random_runs: Annotated[int, option(whole_number(least=1), "N", "Runs that Hypothesis draws.")] = 60,
    as_json: Json = False,
) -> None:
    """Check a channel against every rule of its protocol's specification.

    The channel may be of any library: an adapter says how to open it, send and receive (`python -m pydoc
    permitflow_testing.ChannelAdapter` lists its methods). For each rule: it holds; or it is broken, with the mistake
    in words and the shortest run that was found; or it is not applicable, because the channel lacks what the rule is
    about.

    \b
      permitflow conform my_channel:MyAdapter
      permitflow conform my_channel:MyAdapter --rule none-lost --rule cancelled-send
      permitflow conform permitflow_testing.examples.queues:QueueChannel
      permitflow conform --flow NAME my_channel:MyAdapter
      permitflow conform --command 'node driver.js' --end sender

    With --command, a program in any language is asked to send or receive, and the kit is its peer on the wire. It
    reads a JSON object a line, as {"id": 1, "do": "hello"}, and answers each with the same id and "ok", "refused",
    "cancelled" or "error". The rules of its other end are not asked.

    Each verdict is printed as soon as it is there. A call that does not end is cancelled several times and then left
    alone; code that blocks the event loop is interrupted, and its stack is printed.

    Exit code 0: no rule is broken. 1: one is, or the adapter cannot be opened, or a call of it does not end. 2: there
    is no such adapter, flow or rule.
    """
    from permitflow.errors import InvalidParametersError

    with requires_extra("testing"):
        from permitflow_testing import judge_adapter, judge_pair
    if command is not None:
        if adapter is not None or pair:
            unusable("--command takes the place of MODULE:ADAPTER and of --pair")
        where = _Where(end, dial, accept, limit_seconds, limit_minutes, trace)
        _judge_driver(command, where, rule or [], flow=flow, random_runs=random_runs, as_json=as_json)
    for name, value in (
        *(("--end", end), ("--dial", dial), ("--accept", accept), ("--trace", trace)),
        *(("--limit-seconds", limit_seconds), ("--limit-minutes", limit_minutes)),
    ):
        if value is not None:
            unusable(f"{name} needs --command")
    if adapter is None:
        unusable("MODULE:ADAPTER or --command is missing")
    with _printing_aside(as_json):
        made = _load(adapter, is_pair=pair)
        _ = _pair(made, adapter) if pair else _channel(made, adapter)  # before the rest is looked at
    only = _rules(flow, rule or [], is_pair=pair)
    lines = _Lines(only, is_silent=as_json)
    options: dict[str, Any] = {
        "flow": flow,
        "name": adapter,
        "only": only,
        "random_runs": random_runs,
        "when_judged": lines.print,
    }
    try:
        with _ending_in_any_case():
            with _printing_aside(as_json):
                report = (
                    judge_pair(_pair(made, adapter), **options)
                    if pair
                    else judge_adapter(_channel(made, adapter), **options, when_stuck=_end_stuck)
                )
            if as_json:
                print_json(report.as_json())
            else:
                _print_rest(report)
            sys.stdout.flush()
            stop(holds=report.conforms)
    except InvalidParametersError as error:
        unusable(str(error))


def _printing_aside(as_json: bool) -> "AbstractContextManager[object]":
    """What an adapter prints is no part of a JSON object on standard output."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


class _Where(NamedTuple):
    """What is said of a driver."""

    end: str | None
    dial: str | None
    accept: str | None
    limit_seconds: float | None
    limit_minutes: float | None
    trace: Path | None


def _judge_driver(
    command: str, where: _Where, names: list[str], *, flow: str, random_runs: int, as_json: bool
) -> NoReturn:
    """Judge a driver's ends one after the other."""
    from permitflow.errors import InvalidParametersError, TraceWriteError
    from permitflow.tracing import FileTrace
    from permitflow_testing.foreign.byte_runs import BYTE_WINDOW
    from permitflow_testing.foreign.driver import LIMIT_MINUTES, LIMIT_SECONDS, Driver, DriverError
    from permitflow_testing.foreign.judging import judge_command

    if where.dial is not None and where.accept is not None:
        unusable("--dial and --accept exclude each other: one of the two ends listens")
    only = _rules(flow, names, is_pair=False, beside=(BYTE_WINDOW.id,))
    reports = []
    try:
        driver = Driver(
            command,
            limit_seconds=where.limit_seconds or LIMIT_SECONDS,
            limit_minutes=where.limit_minutes or LIMIT_MINUTES,
        )
        recording = nullcontext(None) if where.trace is None else FileTrace(where.trace)
        with _ending_in_any_case(), _ended(driver), recording as trace:
            for end in _ends_of(driver, where.end, flow, only):
                report = judge_command(
                    driver,
                    end=end,
                    flow=flow,
                    dial=where.dial or "",
                    carrier=where.accept or "",
                    trace=trace,
                    only=only,
                    random_runs=random_runs,
                    when_judged=_Lines(only, is_silent=as_json, title=f"the {end} of {command}").print,
                    when_stuck=_end_stuck,
                )
                reports.append(report)
                if not as_json:
                    _print_rest(report)
            conforms = all(report.conforms for report in reports)
            if as_json:
                print_json({"conforms": conforms, "ends": [report.as_json() for report in reports]})
            sys.stdout.flush()
            stop(holds=conforms)
    except DriverError as error:
        failed(str(error))
    except (InvalidParametersError, TraceWriteError) as error:
        unusable(str(error))


def _ends_of(driver: "Driver", end: str | None, flow: str, only: list[str]) -> list[str]:
    """The ends that are asked for; by default all that the driver has, and that these rules are about."""
    from permitflow_testing.foreign.byte_runs import BYTE_WINDOW
    from permitflow_testing.foreign.command import ENDS, hello
    from permitflow_testing.foreign.judging import rules_of_end
    from permitflow_testing.rulebooks.table import rulebook_of

    if end is not None:
        return chosen("--end", [end], ENDS, "end")
    book, had = rulebook_of(flow), hello(driver).ends
    found = [one for one in had if BYTE_WINDOW.id in only or any(rule.id in only for rule in rules_of_end(book, one))]
    if not found:
        unusable(f"--rule: {', '.join(only)} is about an end that the driver has not; it has {' and '.join(had)}")
    return found


@contextmanager
def _ended(driver: "Driver") -> "Iterator[None]":
    """The driver is ended with the block, or with the process."""
    from permitflow_testing.foreign.driver import kill_all

    _last_acts.append(kill_all)
    try:
        yield
    finally:
        driver.end()
        kill_all()  # also one whose start was interrupted


_last_acts: "list[Callable[[], None]]" = []
"""To be done when the process ends without Python's own end."""


@contextmanager
def _ending_in_any_case() -> "Iterator[None]":
    """End the process although the adapter has left threads, or catches what Ctrl-C and SIGTERM raise."""
    before, is_over, code = set(threading.enumerate()), threading.Event(), 0
    threading.Thread(target=_end_after_a_signal, args=(is_over,), daemon=True).start()
    try:
        yield
    except typer.Exit as end:
        code = end.exit_code
        raise
    except KeyboardInterrupt:
        code = signalled_exit_code()
        raise
    finally:
        is_over.set()
        left = [thread for thread in set(threading.enumerate()) - before if not thread.daemon]
        until = monotonic() + _PATIENCE_SECONDS
        for thread in left:  # those of the kit, which end drivers, are over soon
            thread.join(max(0.0, until - monotonic()))
        if any(thread.is_alive() for thread in left):
            _end(code)


def _end_after_a_signal(is_over: threading.Event) -> None:
    while not is_over.wait(_LOOK_SECONDS):
        if signalled_exit_code() and not is_over.wait(_PATIENCE_SECONDS):
            complain("interrupted")
            _end(signalled_exit_code())


def _end(code: int) -> None:
    """End the process; Python would first wait for all threads, without bound."""
    for act in _last_acts:
        act()
    for output in (sys.stdout, sys.stderr):
        output.flush()
    os._exit(code)


def _end_stuck(text: str) -> None:
    """The loop cannot be interrupted: say so, and end the process, from another thread."""
    complain(text)
    _end(ExitCode.FAILS)


def _load(place: str, *, is_pair: bool) -> object:
    if not _PLACE.fullmatch(place):
        without = f": {place.replace('.py:', ':')}, without .py" if ".py:" in place else ""
        unusable(f"MODULE:ADAPTER must be as in my_channel:MyAdapter, not {place!r}{without}")
    module, _, name = place.partition(":")
    found = imported(module, place)
    try:
        return resolve_name(place)
    except AttributeError:
        there = [each for each, value in vars(found).items() if _may_be_meant(value, is_pair=is_pair)]
        near = get_close_matches(name, there, n=1) or there[:MOST_NAMES]
        advice = f"; did you mean {' or '.join(near)}?" if near else ""
        unusable(f"module {module} has no {name}{advice}")


def _may_be_meant(value: object, *, is_pair: bool) -> bool:
    from permitflow_testing import ChannelAdapter

    is_adapter = isinstance(value, type) and issubclass(value, ChannelAdapter)
    return callable(value) and not is_adapter if is_pair else is_adapter and value is not ChannelAdapter


def _rules(flow: str, names: list[str], *, is_pair: bool, beside: tuple[str, ...] = ()) -> list[str]:
    """The ids of the rules that are asked for, in the order of the report."""
    from permitflow_testing.rulebooks.table import flows, rulebook_of

    book = rulebook_of(chosen("--flow", [flow], flows(), "flow")[0])
    known = [*(rule.id for rule in (book.pair_rules if is_pair else book.rules)), *beside]
    for name in names:
        if name not in known and (near := [each for each in known if name in each]):
            unusable(f"--rule: there is no rule {name!r}; did you mean {' or '.join(near)}?")
        if name not in known and not get_close_matches(name, known, cutoff=0.5):
            there = fill(", ".join(known), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
            unusable(f"--rule: there is no rule {name!r}; there are\n{there}")
    return chosen("--rule", names, known, "rule")


def _channel(made: object, place: str) -> "type[ChannelAdapter]":
    from permitflow_testing import ChannelAdapter

    if not (isinstance(made, type) and issubclass(made, ChannelAdapter)):
        unusable(f"{place} is not a class of permitflow_testing.ChannelAdapter; for a pair of ends, use --pair")
    return made


def _pair(made: object, place: str) -> "Callable[..., PairAdapter]":
    from permitflow_testing import ChannelAdapter

    if isinstance(made, type) and issubclass(made, ChannelAdapter):
        unusable(f"{place} is a channel as a whole, a permitflow_testing.ChannelAdapter; leave --pair away")
    if not callable(made):
        unusable(f"{place} makes nothing; --pair needs a callable that makes a permitflow_testing.PairAdapter")
    return made


class _Lines:
    """Prints verdicts as they come, as the lines of a table."""

    def __init__(self, rules: list[str], *, is_silent: bool, title: str = "") -> None:
        self._console = open_console()
        self._width = max(map(len, rules))
        self._is_silent, self._title = is_silent, title
        self._has_begun = False

    def print(self, verdict: "RuleVerdict") -> None:
        """Print a line, the heading before the first."""
        if self._is_silent:
            return
        if not self._has_begun:
            if self._title:
                print_lines(self._console, f"\n{printable(self._title)}")
            self._line("rule", "", "what was found")
            self._has_begun = True
        outcome = verdict.outcome.value
        self._line(verdict.rule.id, outcome.upper() if verdict.is_broken else outcome, verdict.finding)

    def _line(self, rule: str, outcome: str, finding: str) -> None:
        before = f"{rule:{self._width}}   {outcome:{_OUTCOME_WIDTH}}   "
        room = max(self._console.width - len(before), _LEAST_WIDTH)
        lines = wrap(printable(finding), room, break_on_hyphens=False) or [""]
        print_lines(self._console, before + lines[0], *(" " * len(before) + line for line in lines[1:]))
        self._console.file.flush()


def _print_rest(report: "ConformanceReport") -> None:
    broken = [f"\n{verdict.describe()}" for verdict in report.verdicts if verdict.is_broken]
    print_lines(open_console(), *report.remarks(), *broken, f"\n{report.summary()}")
