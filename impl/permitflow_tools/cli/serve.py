"""``permitflow serve``: an exchange between producers and consumers; its options."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from permitflow.carriers.addresses import parsed, ranked, several, written
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS, RESUME_SECONDS, SILENCE_SECONDS, require_seconds
from permitflow.carriers.security import Security, is_safe
from permitflow.carriers.shared_memory import SameHost
from permitflow.errors import LimitReachedError, PeerGoneError, StoreError, StoreLeftoverError, TransportError
from permitflow.exchange.books.staging import DEFAULT_TIMEOUT_SECONDS
from permitflow.exchange.limits import Limits
from permitflow.flows.byte_window import ByteWindow
from permitflow.names import stream_channels
from permitflow.stream.compression import Compression
from permitflow.stream.control import Retention
from permitflow_tools.cli.channel_options import ChannelOptions, channel_options, refuse_twice
from permitflow_tools.cli.limits import limits_of
from permitflow_tools.cli.logs import LogLevel
from permitflow_tools.cli.option_groups import with_options
from permitflow_tools.cli.options import (
    StreamName,
    exchange_addresses,
    fitting,
    folder_or_database,
    host_and_port,
    http_address,
    is_database,
    number,
    one_of,
    option,
    stream_name,
    whole_number,
)
from permitflow_tools.cli.outcomes import ExitCode, Json, requires_extra, unusable
from permitflow_tools.cli.unblocked import dropped_in_words, unblocked_output
from permitflow_tools.parameters.quantities import size_text

if TYPE_CHECKING:
    from permitflow.exchange.access import AccessControl
    from permitflow.exchange.stores.durable import DurableStore

_MOST_PROCESSES = 256
_MOST_PORT = 65_535
_FEW_CONNECTIONS = 512
_DEFAULT_ADDRESS = "127.0.0.1:50051"
_SECURITY_OPTIONS = {"certificate": "--tls-cert", "key": "--tls-key", "ca": "--tls-client-ca"}


def _security(
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            "--tls-cert",
            metavar="FILE",
            help="Use TLS, with this certificate and those between it and its CA, in PEM; it is read again once it has "
            "changed.",
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option("--tls-key", metavar="FILE", help="The certificate's key. Default: it is in the same file."),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-client-ca",
            metavar="FILE",
            help="Mutual TLS: take clients only whose certificate a CA in this file has signed.",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen without TLS on addresses that other hosts reach, after a warning."),
    ] = False,
) -> Security:
    """A group of options.

    Raises:
        InvalidParametersError: they do not fit together.
    """
    if tls_client_ca is not None and tls_cert is None:
        unusable("--tls-client-ca: needs --tls-cert: without TLS, a client shows no certificate")
    return Security(certificate=tls_cert, key=tls_key, ca=tls_client_ca, insecure=insecure)


@with_options(names=_SECURITY_OPTIONS, options=channel_options, limits=limits_of, security=_security)
def serve(
    stream: Annotated[
        list[StreamName],
        option(stream_name, "NAME[:N]", "A stream of N channels, NAME/0 to NAME/N-1; may be repeated."),
    ],
    address: Annotated[
        list[str] | None,
        option(
            host_and_port,
            "HOST:PORT",
            "Where to listen; port 0 takes a free one, tcp:// or udp:// before it does without gRPC; may be repeated. "
            "Default: 127.0.0.1:50051.",
        ),
    ] = None,
    *,
    options: ChannelOptions,
    store: Annotated[
        str | None,
        option(
            folder_or_database,
            "DIR|postgresql://…",
            "With replay: keep rows on disk, in this folder, or in a schema of this database of PostgreSQL, "
            "postgresql://[USER@]HOST[:PORT]/DATABASE[?schema=NAME]; a restart goes on from there. The password comes "
            "from PGPASSWORD or PGPASSFILE. Default: in memory.",
        ),
    ] = None,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="With a store in PostgreSQL: while another exchange has it, wait; take it over, and begin to listen, "
            "once that one has ended or is silent for 10 seconds.",
        ),
    ] = False,
    staging_timeout_seconds: Annotated[
        float,
        option(
            whole_number(least=1),
            "SECONDS",
            "With replay: what a query has staged is forgotten after so long without a sign of the query. "
            f"Default: {DEFAULT_TIMEOUT_SECONDS:.0f}.",
        ),
    ] = int(DEFAULT_TIMEOUT_SECONDS),
    drain_seconds: Annotated[
        float,
        option(
            number,
            "SECONDS",
            "After SIGTERM or Ctrl-C: the most time for streams to end, and for consumers to take the rows in memory.",
        ),
    ] = 3.0,
    handshake_seconds: Annotated[
        float,
        option(
            fitting(number, lambda seconds: require_seconds(handshake_seconds=seconds)),
            "SECONDS",
            "Close a connection that has not named its channel within this time.",
        ),
    ] = HANDSHAKE_SECONDS,
    silence_seconds: Annotated[
        float,
        option(
            fitting(number, lambda seconds: require_seconds(silence_seconds=seconds)),
            "SECONDS",
            "End the streams of a peer that is silent for longer; at least 3.",
        ),
    ] = SILENCE_SECONDS,
    resume_seconds: Annotated[
        float,
        option(
            fitting(number, lambda seconds: require_seconds(resume_seconds=seconds)),
            "SECONDS",
            "Keep a stream whose connection was lost for this long, so that its client can go on with it; 0: never.",
        ),
    ] = RESUME_SECONDS,
    limits: Limits,
    same_host: Annotated[
        SameHost,
        option(
            one_of(SameHost),
            "RULE",
            "Share memory with processes on this host if they can (auto), never, or require it.",
        ),
    ] = SameHost.AUTO,
    compression: Annotated[
        Compression,
        option(
            one_of(Compression),
            "CODEC",
            "Compress chunks to and from other hosts: lz4 or zstd, if the others can; auto, if they ask; or none.",
        ),
    ] = Compression.AUTO,
    checksums: Annotated[
        bool,
        typer.Option(
            help="Add a checksum to each message over gRPC and TCP: an altered message ends its stream. "
            "Without, one of 65,536 damaged packets passes TCP's own check."
        ),
    ] = True,
    security: Security,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Take clients only that show a token of this file, which has one a line.",
        ),
    ] = None,
    rights: Annotated[
        Path | None,
        typer.Option(
            "--rights",
            metavar="FILE",
            help="Who may do what: identities, by digests of tokens and names in certificates, and their rights, in "
            "TOML; it is read again once it has changed.",
        ),
    ] = None,
    reflection: Annotated[
        bool,
        typer.Option(
            "--reflection",
            help="At addresses of gRPC: describe the service to tools such as grpcurl. Needs permitflow[reflection].",
        ),
    ] = False,
    processes: Annotated[
        int,
        option(
            whole_number(least=1, most=_MOST_PROCESSES),
            "N",
            "Spread the channels over this many processes. Each has a port of its own, one of the N after that of "
            "--address, and who asks elsewhere is told which. Not with --retention replay, --trace or --ui.",
        ),
    ] = 1,
    cluster: Annotated[
        str | None,
        option(
            exchange_addresses,
            "ADDRESS,…",
            "This exchange is one of these, and has only those channels that rendezvous hashing gives it. Start each "
            "with the same list and the same --stream, and give it to the clients as their address.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        option(exchange_addresses, "ADDRESS", "Which one of --cluster it is. Default: the first --address."),
    ] = None,
    metrics_address: Annotated[
        str | None,
        option(
            http_address,
            "HOST:PORT",
            "Also serve metrics for Prometheus, at http://HOST:PORT/metrics. Needs permitflow[metrics].",
        ),
    ] = None,
    ui: Annotated[
        str | None,
        option(
            http_address,
            "HOST:PORT",
            "Also serve a page of the channels, at http://HOST:PORT/, with the same TLS, tokens and rights.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Record every action of the protocol, in a new file; .parquet, else JSON lines.",
            dir_okay=False,
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        option(
            one_of(LogLevel),
            "LEVEL",
            "Log from this level on, on standard error, with the time: info also has refused clients and lost "
            "connections. Default: warnings, without the time.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the addresses, and nothing else.")] = False,
    as_json: Json = False,
) -> None:
    """Run an exchange: producers put rows into named channels, consumers get them.

    Producers and consumers both dial the exchange, so neither must be reachable. It holds at most --row-permits rows
    of each channel (with replay --kept-rows), and --row-permits for each producer and consumer that is connected;
    a faster producer waits.

    \b
      permitflow serve --stream orders:2                       channels orders/0 and orders/1
      permitflow serve --stream q12:4 --row-permits 8192       smaller windows
      permitflow serve --stream q12 --address 127.0.0.1:0      a free port; the first line says which
      permitflow serve --stream q12 --trace run.jsonl          for the model to replay
      permitflow serve --stream orders:2 --retention replay --consumer etl --consumer audit --store orders.store
                                                               rows that are read again, and survive a crash
      permitflow serve --stream orders:2 --retention replay --store postgresql://db/app --standby
                                                               takes over from an exchange that has died

    The first line is "listening at HOST:PORT", one for each address. After it, a terminal shows a live table,
    anything else gets a line when something has changed, and --json prints one object a line.

    SIGTERM or Ctrl-C drains: the exchange is no longer ready, and takes no new producers. A producer with a name gets
    an error that asks it to come back later; the others may come to their end, and consumers may take the rows in
    memory, for --drain-seconds. Then all streams end with the error that the exchange is gone, and the last line says
    what was left behind. A second signal stops at once.

    Exit code 0: stopped by SIGTERM. 1: the recording failed, or one of several processes was lost and could not be
    started again. 2: unusable input or store, also one that another exchange has taken over, or it cannot listen
    there. 130: stopped by Ctrl-C.
    """
    if log_level is not None:
        log_level.apply()
    refuse_twice("--stream", [one.name for one in stream])
    addresses = address or [_DEFAULT_ADDRESS]
    if options.target_latency_seconds is not None and trace is not None:
        unusable("--target-latency: not with --trace: a recording cannot tell of a window that changes")
    with requires_extra("grpc"):
        from permitflow.exchange.registry import Exchange, Keeping
        from permitflow_tools.cli.processes import Processes
        from permitflow_tools.cli.serve_reports import ServeReport, dropped_as_json
        from permitflow_tools.cli.serving import OneProcess, Whole, all_descriptors, new_recording, serve_until_signal
    if reflection:
        with requires_extra("reflection"):
            import grpc_reflection  # noqa: F401 - to complain now
    if metrics_address is not None:
        with requires_extra("metrics"):
            import prometheus_client  # noqa: F401 - to complain now
    if standby and not is_database(store or ""):
        unusable("--standby: needs --store postgresql://…: only such a store can be taken over")
    if processes > 1:
        _require_fit_for_processes(processes, options.retention, trace, ui, addresses)
    access = _access(rights, token_file)
    _require_safe(ui, security)
    _warn_of([*addresses, *([ui] if ui else [])], security, access)
    channels = [channel for one in stream for channel in stream_channels(one.name, one.channels)]
    if cluster is not None:
        own = _own_address(cluster, advertise or addresses[0])
        channels = [channel for channel in channels if ranked(several(cluster), channel)[0] == own]
    elif advertise is not None:
        unusable("--advertise: needs --cluster, in which it is one of the addresses")
    _require_memory(limits, options, len(channels), processes)
    with _told_errors(processes, is_one_of_several=cluster is not None), ExitStack() as stack:
        stack.enter_context(unblocked_output(dropped_as_json if as_json else dropped_in_words))
        recording, begin = stack.enter_context(new_recording(trace)) if trace else (None, lambda: None)
        kept = stack.enter_context(_opened(store, standby=standby)) if store else None
        if kept is not None:  # all of it, before the first channel is written down
            kept.require_fitting(channels, parameters=options.parameters, consumers=options.consumers)
        report = stack.enter_context(ServeReport(as_json=as_json, quiet=quiet))
        settings: dict[str, Any] = {
            "parameters": options.parameters,
            "same_host": same_host,
            "compression": compression,
            "checksums": checksums,
            "byte_window": options.byte_window,
            "target_latency_seconds": options.target_latency_seconds,
        }
        serving: dict[str, Any] = {
            "handshake_seconds": handshake_seconds,
            "silence_seconds": silence_seconds,
            "resume_seconds": resume_seconds,
            "security": security,
            "reflection": reflection,
        }
        within = limits.within(descriptors := all_descriptors())
        if within.max_connections < _FEW_CONNECTIONS <= limits.max_connections:
            typer.echo(
                f"warning: this process may have {descriptors:,} descriptors, which suffice for "
                f"{within.max_connections:,} connections, {within.max_connections_per_peer:,} of them of one peer: "
                "raise that limit (ulimit -n)",
                err=True,
            )
        keeping: Keeping = {
            "consumers": options.consumers,
            "kept_rows": options.kept_rows,
            "staging_rows": options.staging_rows,
            "expire_seconds": options.expire_seconds,
            "expire_bytes": options.expire_bytes,
        }

        async def run() -> tuple[bool, bool]:
            whole: Whole
            if processes > 1:
                whole = Processes(
                    processes,
                    channels,
                    addresses[0],
                    settings=settings,
                    limits=within,
                    serving=serving,
                    rights=rights,
                    token_file=token_file,
                    log_level=log_level,
                    losses=report,
                )
            else:
                exchange = Exchange(
                    record=None if recording is None else recording.recorder,
                    store=kept,
                    staging_timeout_seconds=staging_timeout_seconds,
                    limits=within,
                    **settings,
                )
                whole = OneProcess(
                    exchange, lambda: exchange.add_channels(channels, retention=options.retention, **keeping)
                )
            is_interrupted = await serve_until_signal(
                whole,
                addresses,
                report,
                begin,
                drain_seconds=drain_seconds,
                metrics_address=metrics_address,
                ui_address=ui,
                access=access,
                serving=serving,
            )
            return is_interrupted, whole.has_failed

        is_interrupted, has_failed = asyncio.run(run())
    if has_failed:
        raise typer.Exit(ExitCode.FAILS)
    raise typer.Exit(ExitCode.INTERRUPTED if is_interrupted else ExitCode.HOLDS)


_MOVED = "; or the list of --cluster gives them to others now: start with the former list, and move them once empty"


@contextmanager
def _told_errors(processes: int, *, is_one_of_several: bool) -> Iterator[None]:
    """End the command if the exchange cannot begin, and name the option that is at fault."""
    try:
        yield
    except LimitReachedError as error:
        unusable(f"{error.option}: {error}")
    except TransportError as error:
        needed = f"; --processes needs the {processes} ports after that of --address, too" if processes > 1 else ""
        reason = getattr(error.__cause__, "strerror", None) or "the port is in use, or this machine has no such address"
        reason = reason.partition(" (while")[0]  # the library repeats the address
        unusable(f"--address: {error.facts['what']}: {reason}{needed}")
    except StoreError as error:
        moved = is_one_of_several and isinstance(error, StoreLeftoverError)
        unusable(f"--store: {error}{_MOVED if moved else ''}")
    except PeerGoneError as error:  # one of several processes has not begun
        unusable(f"--processes: {error}")


def _opened(store: str, *, standby: bool) -> "DurableStore":
    """The store at this place; for a standby, once it is free.

    Raises:
        StoreError: it is in use, or cannot be used.
    """
    if not is_database(store):
        from permitflow.exchange.stores.sqlite import SqliteStore

        return SqliteStore(Path(store))
    with requires_extra("postgres"):
        from permitflow.exchange.stores.postgres import PostgresStore

    def tell(by: str) -> None:
        typer.echo(f"standing by: waiting for the store, which {by} has", err=True)

    return PostgresStore(store, on_wait=tell if standby else None)


def _own_address(cluster: str, address: str) -> str:
    own = written(parsed(address, least_port=0))
    if own not in several(cluster):
        unusable(f"--cluster: {own} is none of these: say with --advertise which one this exchange is")
    return own


def _require_fit_for_processes(
    processes: int, retention: Retention, trace: Path | None, ui: str | None, addresses: Sequence[str]
) -> None:
    if retention is Retention.REPLAY:
        unusable("--processes: not with --retention replay, whose batches are published in one process as a whole")
    if trace is not None:
        unusable("--processes: not with --trace, because a recording is that of one process")
    if ui is not None:
        unusable("--processes: not with --ui, which shows the channels of one process; permitflow top shows all")
    if len(addresses) > 1:
        unusable("--processes: takes a single --address, because the processes listen at the ports after it")
    if (port := parsed(addresses[0], least_port=0).port) and port + processes > _MOST_PORT:
        unusable(f"--processes: the {processes} ports after {port} go beyond {_MOST_PORT}: choose a lower port, or 0")


def _require_memory(limits: Limits, options: ChannelOptions, channels: int, processes: int) -> None:
    """Refuse limits with which no stream would find room, and say which would do."""
    from permitflow.exchange.admission import before_streams_bytes, stream_bytes
    from permitflow.wire.arrow import MAX_CHUNK_BYTES

    before, window = before_streams_bytes(limits), ByteWindow(options.byte_window).most_bytes(MAX_CHUNK_BYTES)
    stream = stream_bytes(window)
    windows = 0 if options.retention is Retention.REPLAY else ceil(channels / processes) * window
    door = before if processes > 1 else 0
    least = door + processes * (before + windows + stream)
    if limits.max_memory is not None and limits.max_memory < least:
        unusable(
            f"--max-memory: {size_text(limits.max_memory)} leaves no room for a stream beside the channels and "
            f"handshakes: give at least {_mebibytes(least)}, or lower --max-handshakes or --max-suspended-bytes"
        )
    if limits.max_memory_per_peer is not None and limits.max_memory_per_peer < stream:
        given = size_text(limits.max_memory_per_peer)
        unusable(f"--max-memory-per-peer: {given} leaves no room for a stream: give at least {_mebibytes(stream)}")


def _mebibytes(size_bytes: int) -> str:
    """Not less than this, as an option takes it."""
    return f"{ceil(size_bytes / (1 << 20))}MiB"


def _access(rights: Path | None, token_file: Path | None) -> "AccessControl | None":
    if rights is None and token_file is None:
        return None
    if rights is not None and token_file is not None:
        unusable("--token-file: cannot be given beside --rights, which has the digests of tokens")
    from permitflow.exchange.access import AccessControl

    return AccessControl(rights=rights, token_file=token_file)


def _require_safe(ui: str | None, security: Security) -> None:
    """Refuse to show the page to other hosts without TLS, unless told to."""
    if ui is not None and not (is_safe(parsed(ui, least_port=0), security) or security.insecure):
        unusable(f"--ui: {ui} is not on the loopback, so it needs --tls-cert (or --insecure)")


def _warn_of(addresses: Sequence[str], security: Security, access: object) -> None:
    """Say which addresses are not protected."""
    everybody = "everybody there" if access is None else "everybody there who has seen a token"
    for each in addresses:
        where = parsed(each, least_port=0)
        if not is_safe(where, security) and security.insecure:
            typer.echo(
                f"warning: {each} has no TLS, and other hosts may reach it: {everybody} can read, write and "
                "administer all channels, and read what others send",
                err=True,
            )
