"""``permitflow channel``: the channels of a running exchange, seen and changed from outside."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from permitflow.errors import RetentionError, printable, shortened
from permitflow.names import told
from permitflow.stream.control import ChannelState, Retention
from permitflow.stream.traffic import SILENT, lag_in_words
from permitflow.wire.texts import MOST_CHARACTERS
from permitflow_tools.cli.channel_options import ChannelOptions, channel_options
from permitflow_tools.cli.console import open_console, open_table, print_lines, print_table
from permitflow_tools.cli.dialling import DialTarget, dials
from permitflow_tools.cli.option_groups import with_options
from permitflow_tools.cli.options import StreamName, given_options, option, stream_name, whole_number
from permitflow_tools.cli.outcomes import Json, failed, print_json, unusable
from permitflow_tools.cli.traffic_table import bytes_here, in_doubt_in_words

if TYPE_CHECKING:
    from permitflow.client import ChangedChannel, ListedChannel
    from permitflow.client.blocking import BlockingControl

channel = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Names: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="CHANNEL", help="Channels, as orders/0; of a stream, as orders, all channels.")
]
Force: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--force", help="Also while they are used: streams end with an error, and rows that wait are dropped."
    ),
]
_MOST_PEEKED = 10_000


@channel.callback()
def _group() -> None:
    """The channels of a running exchange, seen and changed from outside.

    The --help of each order says what it does to connected producers and consumers, and to streams that have lost
    their connection. Channels are named as in orders/0; orders alone means all channels of that stream.
    """


@channel.command("list")
@dials
def list_(
    exchange: DialTarget,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHANNEL", help="Only these channels, or all of a stream. Default: all."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What channels are there, in which state, and who is connected?

    \b
      permitflow channel list                              all channels
      permitflow channel list orders                       those of one stream
      permitflow channel list orders/0 --json              one, with schema, parameters and connections

    Columns: producers and consumers that are connected; rows that wait in the channel, or are kept, and their bytes,
    by which --expire-bytes counts; the room that is left for rows; of channels that keep their rows, what each consumer
    has still to acknowledge. A channel that is spent or broken says why: permitflow channel reset makes it usable
    again. So do rows in doubt: see permitflow channel rollback.

    If there are several exchanges, those that answer are listed, and a column (in JSON: exchange) says which one has a
    channel; the others are named, and so is a channel that two of them have.

    Exit code 0: here they are. 1: an exchange does not answer, or two have the same channel. 2: unknown channel.
    """
    with exchange.orders() as orders:
        listed = orders.channels(_chosen(orders, names, partial=True) if names else (), partial=True)
        survey = orders.survey()
    if as_json:
        channels = [survey.of(each.traffic.channel) | _as_json(each) for each in listed]
        print_json({"address": exchange.address, "channels": channels, **survey.as_json()})
    else:
        _show(listed, survey.places, shows_connections=bool(names))
    if not survey.is_whole:
        failed("; ".join(survey.words))


def _show(listed: "Sequence[ListedChannel[Any]]", places: Mapping[str, str], *, shows_connections: bool) -> None:
    console = open_console()
    if not listed:
        print_lines(console, "no channels here that this client may administer")
        return
    kept = any(each.traffic.kept is not None for each in listed)
    at = ["exchange"] if places else []
    columns = ("channel", *at, "state", "put/get", "rows", "bytes", "room", *(["lag"] if kept else []), "flow", "why")
    table = open_table(*columns, right=("rows", "bytes", "room"), wrap=("lag", "why"))
    for each in listed:
        traffic = each.traffic
        table.add_row(
            told(traffic.channel),
            *([places.get(traffic.channel, "")] if places else []),
            told(traffic.state),
            f"{traffic.producers}/{traffic.consumers}",
            f"{_waiting(each):,}",
            f"{bytes_here(traffic):,}",
            "" if traffic.room_rows is None else f"{traffic.room_rows:,}",
            *([lag_in_words(traffic.kept.lag_rows) if traffic.kept else ""] if kept else []),
            each.parameters.flow.name,
            told(traffic.reason, MOST_CHARACTERS) or in_doubt_in_words(traffic),
        )
    print_table(console, table)
    for each in listed if shows_connections else ():
        traffic = each.traffic
        for one in each.connections:
            lost = ", without a connection" if one.is_suspended else ""
            who = told(f"{one.direction} {one.stream} with {one.peer}, {one.state}", MOST_CHARACTERS)
            print_lines(console, f"{told(traffic.channel)}: {who}{lost}, {one.rows_held:,} rows under way")
        if each.schema is not None:
            print_lines(console, f"{told(traffic.channel)}: schema {shortened(_schema_words(each.schema))}")


@channel.command()
@dials
@with_options(options=channel_options)
def add(
    exchange: DialTarget,
    context: typer.Context,
    stream: Annotated[
        StreamName,
        typer.Argument(parser=stream_name, metavar="NAME[:N]", help="A stream of N channels, NAME/0 to NAME/N-1."),
    ],
    options: ChannelOptions,
    as_json: Json = False,
) -> None:
    """Add a stream to a running exchange; its channels can be used at once.

    The options are those of permitflow serve. An exchange with --store keeps the rows of channels with --retention
    replay on disk, and finds those of a stream of this name that was there before.

    \b
      permitflow channel add orders:4
      permitflow channel add audit --retention replay --consumer etl --consumer check

    Exit code 0: added. 1: the exchange does not answer, or cannot write. 2: a name is taken, or the options cannot be.
    """
    with exchange.orders() as orders:
        added = orders.add_stream(
            stream.name,
            stream.channels,
            options.parameters,
            retention=options.retention,
            consumers=options.consumers if options.retention is Retention.REPLAY else (),
            kept_rows=options.kept_rows,
            staging_rows=options.staging_rows,
            expire_seconds=options.expire_seconds,
            expire_bytes=options.expire_bytes,
            byte_window=options.byte_window if "--byte-window" in given_options(context) else None,
            target_latency_seconds=options.target_latency_seconds,
        )
    if as_json:
        print_json({"address": exchange.address, "channels": [_as_json(each) for each in added]})
    else:
        print_lines(open_console(), *(f"added {told(each.traffic.channel)}" for each in added))


@channel.command()
@dials
def remove(exchange: DialTarget, names: Names, force: Force = False, as_json: Json = False) -> None:
    """Remove channels with all rows that they keep, also on disk.

    Refused while streams are open, also those that have lost their connection, rows wait, or rows are prepared: other
    exchanges may publish the rest of their batch. With --force these streams end with ChannelRemovedError, and all rows
    are dropped.

    Exit code 0: removed. 1: one of them is used, or the exchange does not answer; none was removed. 2: unknown channel.
    """
    with exchange.orders() as orders:
        changed = orders.remove(_chosen(orders, names), force=force)
    _tell("removed", changed, exchange, as_json=as_json)


@channel.command()
@dials
def reset(
    exchange: DialTarget,
    names: Names,
    force: Force = False,
    broken: Annotated[
        bool, typer.Option("--broken", help="Only those of them that are broken; the others may be used.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make channels usable again that are spent, broken or ended.

    A channel that is read once begins anew, with the same settings. One that keeps its rows is open again for
    producers, and loses nothing. Refused while streams are open, also those that have lost their connection, or rows
    wait that would be dropped. With --force these streams end with ChannelResetError.

    \b
      permitflow channel reset orders/0
      permitflow channel reset orders --broken
      permitflow channel reset orders --force

    Exit code 0: usable again. 1: one of them is used, or the exchange does not answer. 2: unknown channel.
    """
    with exchange.orders() as orders:
        chosen = _chosen(orders, names)
        silent = dict[str, None]()
        if broken:
            # Of all: a question about channels whose process does not answer fails.
            told_of = {each.channel: each for each in orders.statistics(partial=True).channels}
            silent |= {
                told_of[name].reason: None for name in chosen if name in told_of and told_of[name].state == SILENT
            }
            # The exchange refuses names that it does not have.
            chosen = [name for name in chosen if name not in told_of or told_of[name].state == ChannelState.BROKEN]
        changed = orders.reset(chosen, force=force) if chosen else ()
    if not chosen and not as_json:
        print_lines(open_console(), "none of these channels is broken")
    _tell("reset", changed, exchange, as_json=as_json)
    if silent:
        failed("; ".join(silent))


@channel.command()
@dials
def purge(
    exchange: DialTarget,
    names: Names,
    consumer: Annotated[
        str,
        typer.Option(metavar="NAME", help="Of channels that keep their rows: only for this consumer. Default: all."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Drop the rows and barriers that wait in channels; producers and consumers stay connected.

    Their permits return, so producers that waited go on. If a channel keeps its rows, all rows that are there are
    acknowledged, for --consumer or for all consumers. What was dropped cannot be had again: permitflow channel peek
    shows it before.

    Exit code 0: done; says how many rows. 1: the exchange does not answer, or a row is just leaving and cannot. 2:
    unknown channel or consumer.
    """
    with exchange.orders() as orders:
        changed = orders.purge(_chosen(orders, names), consumer=consumer)
    _tell("purged", changed, exchange, as_json=as_json)


@channel.command()
@dials
def rollback(exchange: DialTarget, names: Names, as_json: Json = False) -> None:
    """Forget rows that are in doubt: staged, and perhaps published by other exchanges.

    A query that publishes at several exchanges lets each of them prepare its rows, which do not expire from then on.
    They are in doubt if nothing was heard of the query for --staging-timeout-seconds: permitflow channel list and top
    show them. If the query comes again, it publishes or replaces them. If it never does, they only take room. If it
    comes after all, and other exchanges have published the batch, it fails, and says how to go on.

    Exit code 0: done; says how many rows. 1: the exchange does not answer, or cannot write its store: look again what
    is in doubt. 2: unknown channel, or it keeps no rows.
    """
    with exchange.orders() as orders:
        try:
            changed = orders.rollback(_chosen(orders, names))
        except RetentionError as error:
            unusable(str(error))
    _tell("rolled back", changed, exchange, as_json=as_json)


@channel.command()
@dials
def peek(
    exchange: DialTarget,
    name: Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel, as orders/0.")],
    rows: Annotated[
        int,
        option(
            whole_number(least=1, most=_MOST_PEEKED), "ROWS", "The most rows; fewer if they take 8 MiB. Default: 10."
        ),
    ] = 10,
    consumer: Annotated[
        str, typer.Option(metavar="NAME", help="Of a channel that keeps its rows: whose rows. Default: default.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the first rows that wait in a channel; they stay there.

    Exit code 0: here they are. 1: the exchange does not answer. 2: unknown channel or consumer.
    """
    with exchange.orders() as orders:
        found = orders.peek(name, rows, consumer=consumer)
    from permitflow_tools.row_files import values  # it loads Arrow, as orders do

    if as_json:
        print_json({"address": exchange.address, "channel": name, "rows": values.as_json(values.rows_of(found))})
        return
    console = open_console()
    if not found.num_rows:
        print_lines(console, "no rows wait")
        return
    table = open_table(*map(told, found.column_names), wrap=tuple(map(told, found.column_names)))
    for row in zip(*map(values.values_of, found.columns), strict=True):
        table.add_row(*(printable(shortened(str(value))) for value in row))
    print_table(console, table)


def _chosen(orders: "BlockingControl", names: Sequence[str], *, partial: bool = False) -> list[str]:
    """The channels that these names mean; the exchange refuses names that it does not have."""
    known = None
    chosen = dict[str, None]()
    for name in names:
        if "/" not in name:
            known = known or [each.channel for each in orders.statistics(partial=partial).channels]
            own = [one for one in known if one.rpartition("/")[0] == name]
            if name not in known and own:
                chosen |= dict.fromkeys(own)
                continue
        chosen[name] = None
    return [*chosen]


def _tell(deed: str, changed: "Sequence[ChangedChannel]", exchange: DialTarget, *, as_json: bool) -> None:
    if as_json:
        print_json({"address": exchange.address, "channels": [each._asdict() for each in changed]})
        return
    console = open_console()
    for each in changed:
        done = [f"{each.rows:,} rows dropped"] if each.rows or deed in ("purged", "rolled back") else []
        done += [f"{each.barriers:,} barriers dropped"] if each.barriers else []
        done += [f"{each.streams:,} streams ended"] if each.streams else []
        print_lines(console, f"{deed} {told(each.channel)}{': ' if done else ''}{', '.join(done)}")


def _waiting(listed: "ListedChannel[Any]") -> int:
    kept = listed.traffic.kept
    return listed.traffic.rows_held if kept is None else kept.kept_rows


def _as_json(listed: "ListedChannel[Any]") -> dict[str, object]:
    flow = listed.parameters.flow
    return {
        "channel": listed.traffic.channel,
        "state": listed.traffic.state,
        "reason": listed.traffic.reason,
        "retention": listed.retention.value,
        "rows_waiting": _waiting(listed),
        "flow": flow.name,
        "parameters": dict(flow.stated(listed.parameters)),
        "schema": None if listed.schema is None else {field.name: str(field.type) for field in listed.schema},
        "limit_rows": listed.limit_rows,
        "is_durable": listed.is_durable,
        "connections": [asdict(one) for one in listed.connections],
        "traffic": asdict(listed.traffic),
    }


def _schema_words(schema: Any) -> str:
    return ", ".join(printable(f"{field.name} {field.type}") for field in schema)
