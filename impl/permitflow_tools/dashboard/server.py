"""Serves the page of an exchange, and what it asks for: the standard library's HTTP server, in threads of its own.

Who may see what is the same as for any client: with rights or a file of tokens, each request shows a token in its
header ``Authorization: Bearer``, or a certificate.  The page itself has no figure in it, and needs none.

Another page in the user's browser can do nothing here.  It cannot read answers, because these allow no other origin.
It cannot give an order, because that needs a header whose value is in this page only.  A name that its owner points at
this host is refused unless TLS vouches for the name, and this page is shown in no frame.
"""

import asyncio
import json
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

from permitflow.carriers.addresses import is_loopback
from permitflow.carriers.security import Security
from permitflow.carriers.tls import names_in
from permitflow.carriers.tls_files import FromFiles, server_context
from permitflow.errors import (
    ChannelInUseError,
    ForbiddenError,
    InvalidOptionError,
    InvalidParametersError,
    PermitflowError,
    UnauthenticatedError,
    UnknownChannelError,
)
from permitflow.exchange.access import ANYBODY, Access, AccessControl
from permitflow.exchange.registry import Exchange
from permitflow.exchange.serving import carry_out
from permitflow.stream.control import MOST_CHANNELS, Changed, ResetChannels, Right
from permitflow_tools.dashboard.history import (
    FIGURES_OF_A_SAMPLE,
    HISTORY_SECONDS,
    SAMPLE_SECONDS,
    History,
    filled_share,
)
from permitflow_tools.dashboard.waits import waits_of
from permitflow_tools.explain.assets import page
from permitflow_tools.explain.page_server import ANSWER_SECONDS, READER_SECONDS, PageHandler, PageServer, serving

GUARD = "Permitflow-Page"
"""The header that an order needs; its value is in the page only."""
MOST_SHOWN = 100
"""Channels in an answer."""
_MOST_ORDER_BYTES = 64 << 10

_STATUSES: Sequence[tuple[type[PermitflowError], HTTPStatus]] = (
    (UnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (UnknownChannelError, HTTPStatus.NOT_FOUND),
    (ChannelInUseError, HTTPStatus.CONFLICT),
    (InvalidParametersError, HTTPStatus.BAD_REQUEST),
)


class _Refusal(Exception):
    """A request that is answered with a status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Dashboard:
    """What the page of an exchange shows, and what it orders.  For the event loop of the exchange."""

    def __init__(
        self,
        exchange: Exchange,
        addresses: Sequence[str],
        access: AccessControl | None = None,
        *,
        allows_anybody_to_reset: bool = True,
    ) -> None:
        """Nothing is sampled yet.

        Args:
            exchange: whose page it is.
            addresses: where it listens, for the page's title.
            access: who may do what; None: anybody may see everything.
            allows_anybody_to_reset: without ``access``.
        """
        self._exchange, self._addresses, self._control = exchange, addresses, access
        self._allows_anybody_to_reset = allows_anybody_to_reset
        self.history = History(exchange)
        self.guard = secrets.token_urlsafe(16)

    def page(self) -> str:
        """The page, without any figure."""
        title = f"Exchange at {', '.join(self._addresses)}"
        document = {
            "guard": self.guard,
            "asksForToken": self._control is not None,
            "sampleSeconds": SAMPLE_SECONDS,
            "historySeconds": HISTORY_SECONDS,
            "watched": MOST_CHANNELS,
        }
        return page(
            "dashboard",
            ("palette.css", "page.css", "dashboard.css"),
            {"title": title},
            {},
            scripts=("dashboard.js",),
            document=document,
            folder=files("permitflow_tools.dashboard"),
            asks_its_server=True,
        )

    def access(self, token: str | None, names: tuple[str, ...]) -> Access:
        """What a reader may do.

        Raises:
            UnauthenticatedError: it is unknown.
        """
        if self._control is None:
            return ANYBODY
        if token is None and not names:  # a browser has none of the options that a client hears of
            raise UnauthenticatedError(reason="it shows no token")
        return self._control.admit(token, names)

    async def channels(
        self,
        access: Access,
        *,
        first: int = 0,
        count: int = MOST_SHOWN,
        find: str = "",
        channel: str = "",
        after: int = 0,
    ) -> dict[str, object]:
        """The channels of which a reader may know, ready for JSON; counts and rates are of the last sample.

        Args:
            access: the reader's.
            first: this many channels are passed over.
            count: at most this many are told, and at most ``MOST_SHOWN``.
            find: only those whose names contain this.
            channel: only this one.
            after: of the history, samples after this many.

        Raises:
            UnknownChannelError: there is no such channel, or the reader may not know of it.
        """
        history = self.history
        seen = {name: rates for name, rates in history.rates.items() if access.sees(name)}
        if channel:
            if channel not in seen:
                raise UnknownChannelError(channel=channel, known=tuple(seen))
            found = [channel]
        else:
            found = [name for name in seen if find in name]
        shown = found[first : first + min(count, MOST_SHOWN)]
        memory = self._exchange.admission
        return {
            "sample": history.taken,
            "at_seconds": history.at_seconds,
            "figures": FIGURES_OF_A_SAMPLE,
            "identity": access.identity,
            "phase": self._exchange.readiness.phase.name.lower(),
            "streams": memory.streams,
            "reserved_bytes": memory.memory.reserved_bytes,
            "max_memory": memory.limits.max_memory,
            "watches_all": len(self._exchange.names) <= MOST_CHANNELS,
            "all": [
                {"channel": name, "state": rates.traffic.state, "waiting": waits_of(rates).who}
                for name, rates in seen.items()
            ],
            "totals": {
                "rows_in_per_second": sum(rates.rows_in_per_second for rates in seen.values()),
                "rows_out_per_second": sum(rates.rows_out_per_second for rates in seen.values()),
                "rows_held": sum(rates.traffic.rows_held for rates in seen.values()),
                "bytes_held": sum(rates.traffic.bytes_held for rates in seen.values()),
            },
            "found": len(found),
            "first": first,
            "channels": [
                seen[name].as_json()
                | {
                    "waits": waits_of(seen[name])._asdict(),
                    "filled": filled_share(seen[name].traffic),
                    "may_reset": self._may_reset(access, name),
                    "history": history.since(after, name),
                }
                for name in shown
            ],
            "events": [event._asdict() for event in history.events(access.sees)],
        }

    def _may_reset(self, access: Access, channel: str) -> bool:
        return self._allows_anybody_to_reset if access.is_open else access.allows(Right.ADMINISTER, channel)

    async def reset(self, access: Access, channels: tuple[str, ...], *, force: bool) -> dict[str, object]:
        """Make channels usable again.

        Raises:
            ForbiddenError: the reader has no right to.
            UnknownChannelError: no channel has one of these names.
            ChannelInUseError: one of them is used, and ``force`` was not given.
        """
        if access.is_open and not self._allows_anybody_to_reset:
            raise access.refusal(
                Right.ADMINISTER,
                ", ".join(channels),
                "beyond the loopback the page resets only for those who show a token (serve --rights, --token-file)",
            )
        request = ResetChannels(channels, force)
        access.require_all(request)
        with access.hiding():
            changed = await carry_out(self._exchange, request, access)
        assert isinstance(changed, Changed)
        return {"changed": [each._asdict() for each in changed.channels]}


class _Server(PageServer):
    def __init__(self, host: str, port: int, dashboard: Dashboard, tls: FromFiles[ssl.SSLContext] | None) -> None:
        """Listen.  Call it in the event loop of the exchange.

        Raises:
            OSError: the address cannot be had.
        """
        self.host, self.tls, self.dashboard = host, tls, dashboard
        self.page = dashboard.page().encode()
        super().__init__(host, port, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept, with TLS if it is used; the reader's own thread makes the handshake."""
        connection, address = super().get_request()
        if self.tls is None:
            return connection, address
        context = self.tls.current()
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address


class _Handler(PageHandler):
    server: _Server

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(READER_SECONDS)
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:  # noqa: N802  # so http.server calls it
        with self._answering():
            address = urlsplit(self.path)
            if address.path == "/":
                self.send(HTTPStatus.OK, "text/html", self.server.page)
            elif address.path == "/channels.json":
                wanted = _wanted(address.query)
                self._send_json(HTTPStatus.OK, self._ask(lambda board, access: board.channels(access, **wanted)))
            else:
                raise _Refusal(HTTPStatus.NOT_FOUND, "there are / and /channels.json, and POST /reset")

    def do_POST(self) -> None:  # noqa: N802
        with self._answering():
            if urlsplit(self.path).path != "/reset":
                raise _Refusal(HTTPStatus.NOT_FOUND, "the only order is POST /reset")
            shown = self.headers.get(GUARD, "").encode()
            if not secrets.compare_digest(shown, self.server.dashboard.guard.encode()):
                message = f"the header {GUARD} must have the value in the page; load the page again"
                raise _Refusal(HTTPStatus.FORBIDDEN, message)
            channels, force = self._order()
            self._send_json(HTTPStatus.OK, self._ask(lambda board, access: board.reset(access, channels, force=force)))

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Answer errors of the block, and requests with a foreign name."""
        try:
            self._require_own_name()
            yield
        except _Refusal as refusal:
            self._refuse(refusal.status, type(refusal).__name__.strip("_"), str(refusal))
        except PermitflowError as error:
            found = (status for kind, status in _STATUSES if isinstance(error, kind))
            self._refuse(next(found, HTTPStatus.INTERNAL_SERVER_ERROR), type(error).__name__, str(error))
        except TimeoutError:
            message = f"the exchange has not answered for {ANSWER_SECONDS:.0f} s: it is busy, or being stopped"
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "TimeoutError", message)

    def _require_own_name(self) -> None:
        """The owner of a name can point it at this host, and a browser then takes their page and ours for one site."""
        if self.server.tls is not None:  # no certificate of ours has such a name
            return
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        if host not in (self.server.host.lower(), "localhost") and not _is_number(host):
            message = f"this host is not known as {host!r}: use its address, localhost, or the name that --ui was given"
            raise _Refusal(HTTPStatus.MISDIRECTED_REQUEST, message)

    def _ask(
        self, question: Callable[[Dashboard, Access], Coroutine[Any, Any, dict[str, object]]]
    ) -> dict[str, object]:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" and token.strip() else None
        names = names_in(self.request.getpeercert()) if isinstance(self.request, ssl.SSLSocket) else ()

        async def asked() -> dict[str, object]:
            board = self.server.dashboard
            return await question(board, board.access(shown, names))

        return self.server.asked(asked())

    def _order(self) -> tuple[tuple[str, ...], bool]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > _MOST_ORDER_BYTES:
            message = f"an order has a Content-Length of at most {_MOST_ORDER_BYTES:,}, not {length!r}"
            raise _Refusal(HTTPStatus.BAD_REQUEST, message)
        try:
            order = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            order = None
        channels = order.get("channels") if isinstance(order, dict) else None
        force = order.get("force", False) if isinstance(order, dict) else None
        if not (isinstance(channels, list) and all(isinstance(each, str) for each in channels)) or not isinstance(
            force, bool
        ):
            message = 'an order is JSON as in {"channels": ["orders/0"], "force": false}'
            raise _Refusal(HTTPStatus.BAD_REQUEST, message)
        return tuple(channels), force

    def _refuse(self, status: HTTPStatus, error: str, message: str) -> None:
        self._send_json(status, {"error": error, "message": message})

    def _send_json(self, status: HTTPStatus, value: dict[str, object]) -> None:
        self.send(status, "application/json", json.dumps(value, separators=(",", ":")).encode())


def _wanted(query: str) -> dict[str, Any]:
    """Raises ``_Refusal``."""
    wanted: dict[str, Any] = {}
    for name, values in parse_qs(query, keep_blank_values=True).items():
        if name in ("first", "count", "after"):
            if not values[-1].isdecimal() or len(values[-1]) > 12:
                raise _Refusal(HTTPStatus.BAD_REQUEST, f"{name} must be a whole number, not {values[-1]!r}")
            wanted[name] = int(values[-1])
        elif name in ("find", "channel"):
            wanted[name] = values[-1]
        else:
            raise _Refusal(HTTPStatus.BAD_REQUEST, f"there are first, count, find, channel and after, not {name!r}")
    return wanted


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@asynccontextmanager
async def serving_dashboard(
    address: str,
    exchange: Exchange,
    addresses: Sequence[str],
    *,
    security: Security | None = None,
    access: AccessControl | None = None,
) -> AsyncIterator[str]:
    """Serve the page while the block runs; where, with the port that was chosen.  Call it in the exchange's event loop.

    Args:
        address: where to listen, as HOST:PORT.
        exchange: whose page it is.
        addresses: where it listens, for the page's title.
        security: with a certificate, the page uses TLS.
        access: who may do what; None: anybody.

    Raises:
        InvalidOptionError: the address cannot be had.
        InvalidParametersError: a file for TLS cannot be used.
    """
    host, _, port = address.rpartition(":")
    bare = host.strip("[]")
    tls = server_context(security) if security is not None and security.certificate is not None else None
    dashboard = Dashboard(exchange, addresses, access, allows_anybody_to_reset=is_loopback(bare))
    try:
        server = _Server(bare, int(port), dashboard, tls)
    except OSError as error:
        reason = f"cannot be had: {error.strerror or error}"
        raise InvalidOptionError(option="--ui", value=address, reason=reason) from error
    following = asyncio.create_task(dashboard.history.follow())
    try:
        async with serving(server) as chosen:
            yield f"http{'s' if tls else ''}://{host}:{chosen}/"
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
