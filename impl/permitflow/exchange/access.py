"""Who may do what with which channels: identities by tokens and certificates, and their rights, from a file.

The file is TOML, one table for each identity, and has no secret in it: of a token it has the SHA-256 digest.

    [identities.etl]
    tokens = ["sha256:9f2c..."]           # of the bytes of the token; several, while one is being replaced
    certificates = ["etl.example.org"]    # names in a client's certificate, whose CA the exchange trusts
    produce = ["orders/*"]                # patterns of channels, as in a shell; "*" matches "/" as well
    consume = []
    administer = []

It is read again when it has changed.  One that cannot be used changes nothing, except for a warning in the log.
"""

import asyncio
import hashlib
import hmac
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import translate
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from permitflow.carriers.security import LEAST_TOKEN, MOST_TOKEN, is_token
from permitflow.carriers.tls_files import FromFiles
from permitflow.errors import ForbiddenError, InvalidParametersError, UnauthenticatedError, UnknownChannelError
from permitflow.stream.control import BaseRequest, Right

_LOOK_SECONDS = 1.0
"""Seconds between two looks at the file while nobody asks for anything."""
_DIGEST = re.compile("sha256:([0-9a-fA-F]{64})")
_ANY_CHANNEL = "*"
_BEARERS = "a client that has the token"
"""The identity of a client that shows a token of the file of tokens."""


class Shown(NamedTuple):
    """What a client has shown of itself."""

    digest: bytes | None
    """The digest of the client's token; None: it has shown none."""
    names: tuple[str, ...]
    """The names in its certificate, which was checked; the first known one counts."""


class Identity(NamedTuple):
    """A client's name, how it is known, and what it may do."""

    name: str
    digests: tuple[bytes, ...]
    certificates: tuple[str, ...]
    channels: Mapping[Right, re.Pattern[str]]


class Policy:
    """The identities of one version of a file.  Does not change."""

    def __init__(self, identities: Sequence[Identity]) -> None:
        self._identities = {each.name: each for each in identities}
        self._by_certificate = {name: each.name for each in identities for name in each.certificates}
        self._digests = [(digest, each.name) for each in identities for digest in each.digests]

    def identify(self, shown: Shown) -> str:
        """The identity of a client: by its token if it shows one, else by its certificate.

        Raises:
            UnauthenticatedError: there is none.
        """
        if shown.digest is not None:
            found = None
            for digest, name in self._digests:  # all of them: the time must not say which one was nearly right
                if hmac.compare_digest(digest, shown.digest):
                    found = name
            if found is None:
                raise UnauthenticatedError(reason="its token is unknown: was it replaced? Give the new one")
            return found
        for name in shown.names:
            if name in self._by_certificate:
                return self._by_certificate[name]
        if shown.names:
            reason = f"none of the names in its certificate has rights: {', '.join(shown.names[:10])}"
        else:
            reason = (
                "it shows no token (token_file, --token-file, PERMITFLOW_TOKEN), and no certificate, for which an "
                "exchange asks with --tls-client-ca"
            )
        raise UnauthenticatedError(reason=reason)

    def allows(self, identity: str, right: Right, channel: str) -> bool:
        """Whether this identity has a right at a channel."""
        found = self._identities.get(identity)
        return found is not None and found.channels[right].fullmatch(channel) is not None


class AccessControl:
    """Knows the clients of an exchange, and what each may do.  For one event loop."""

    def __init__(self, *, rights: str | Path | None = None, token_file: str | Path | None = None) -> None:
        """Read the file.

        Args:
            rights: identities and their rights; see this module.
            token_file: instead, tokens, one a line: a client that shows one of them may do everything.

        Raises:
            InvalidParametersError: not one of the two is given, or the file cannot be used.
        """
        if (rights is None) is (token_file is None):
            rule = "or token_file must be given, and not both"
            raise InvalidParametersError(name="rights", value=str(rights or token_file), rule=rule)
        self._policy = (
            FromFiles([rights], lambda: _policy_of(Path(rights)))
            if rights is not None
            else FromFiles([token_file or ""], lambda: _bearers_of(Path(token_file or "")))
        )
        self._known = self._policy.current()
        self._holds: dict[Hold, None] = {}

    def admit(self, token: str | None, names: tuple[str, ...] = ()) -> "Access":
        """The access of a client that has connected.

        Args:
            token: that it shows; None: none.
            names: in its certificate, which was checked.

        Raises:
            UnauthenticatedError: it is unknown.
        """
        shown = Shown(None if token is None else hashlib.sha256(token.encode()).digest(), names)
        return Access(self, self.look().identify(shown), shown)

    @property
    def policy(self) -> Policy:
        """The file as it was when it was looked at last."""
        return self._known

    def look(self) -> Policy:
        """The file as it is now; those whose rights it takes away learn that."""
        policy = self._policy.current()
        if policy is not self._known:
            self._known = policy
            for hold in tuple(self._holds):
                hold.look(policy)
        return policy

    async def follow(self) -> None:
        """Look at the file again and again, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def watch(self, hold: "Hold") -> None:
        """Tell a hold about changes of the file."""
        self._holds[hold] = None

    def unwatch(self, hold: "Hold") -> None:
        """Tell it no more; harmless if it was never told."""
        self._holds.pop(hold, None)


class Access:
    """What one client may do."""

    def __init__(self, control: AccessControl | None, identity: str, shown: Shown) -> None:
        """Use ``AccessControl.admit``; without a control, everything is allowed."""
        self._control, self._shown = control, shown
        self.identity = identity
        """The client's name; empty where clients have none."""

    @property
    def is_open(self) -> bool:
        """Is everything allowed?"""
        return self._control is None

    def allows(self, right: Right, channel: str) -> bool:
        """Whether the client has this right at the channel."""
        return self._control is None or self._control.policy.allows(self.identity, right, channel)

    def sees(self, channel: str) -> bool:
        """Whether the client has any right at the channel, and so may know of it."""
        return any(self.allows(right, channel) for right in Right)

    def require(self, right: Right | None, channel: str) -> None:
        """Refuse what the client may not do now; None: any right will do.

        Raises:
            ForbiddenError: it may not.
            UnauthenticatedError: the client is not known any more.
        """
        self._look_again()
        self._require(right, channel)

    def _look_again(self) -> None:
        """What the client has shown, it has shown once, and it may have been taken out of the file since."""
        if self._control is not None and self.identified(self._control.look()) != self.identity:
            raise UnauthenticatedError(reason="it is somebody else by now: dial again")

    def _require(self, right: Right | None, channel: str) -> None:
        if right is not None and not self.allows(right, channel):
            raise self.refusal(right.value, channel, "it has no such right there")
        if right is None and not self.sees(channel):
            raise self.refusal("ask about", channel, f"it has no right there: {', '.join(Right)} would each do")

    def require_all(self, request: BaseRequest) -> None:
        """As ``require``, for all that a request names.

        Raises:
            ForbiddenError: one of them is refused.
            UnauthenticatedError: the client is not known any more.
        """
        self._look_again()
        if not self.is_open:
            for channel in request.named:
                self._require(request.right, channel)

    def refusal(self, right: str, channel: str, reason: str) -> ForbiddenError:
        """The error for this client."""
        return ForbiddenError(identity=self.identity, right=right, channel=channel, reason=reason)

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """An error of the block names no channel of which the client may not know."""
        try:
            yield
        except UnknownChannelError as error:
            if self.is_open:
                raise
            known = tuple(filter(self.sees, error.known))
            raise UnknownChannelError(channel=error.channel, known=known) from None

    def identified(self, policy: Policy) -> str:
        """Who this client is by another version of the file.

        Raises:
            UnauthenticatedError: nobody.
        """
        return policy.identify(self._shown)

    def hold(self) -> "Hold":
        """Hold a right of a stream; needs a running event loop."""
        return Hold(self, self._control)


class Hold:
    """The right of a stream, which may be taken away while it runs."""

    def __init__(self, access: Access, control: AccessControl | None) -> None:
        """Nothing is held yet; use ``Access.hold``."""
        self._access, self._control = access, control
        self._right: tuple[Right, str] | None = None
        self._revoked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self, right: Right, channel: str) -> None:
        """Hold this right from now on.

        Raises:
            ForbiddenError: the client does not have it.
        """
        self._access.require(right, channel)
        self._right = right, channel
        if self._control is not None:
            self._control.watch(self)

    def leave(self) -> None:
        """The stream is over."""
        if self._control is not None:
            self._control.unwatch(self)

    def look(self, policy: Policy) -> None:
        """The file has changed: does it still grant the right?"""
        if self._right is None or self._revoked.done():
            return
        right, channel = self._right
        try:
            identity = self._access.identified(policy)
        except UnauthenticatedError as error:
            self._revoked.set_exception(error)
        else:
            if identity != self._access.identity or not policy.allows(identity, right, channel):
                self._revoked.set_exception(self._access.refusal(right.value, channel, "the right was taken away"))

    async def until_revoked(self) -> NoReturn:
        """Wait until the right is taken away.

        Raises:
            ForbiddenError, UnauthenticatedError: it was.
        """
        await asyncio.shield(self._revoked)
        raise AssertionError("it has no result")


ANYBODY = Access(None, "", Shown(None, ()))
"""The access of all clients of an exchange that asks for no token and has no rights."""


def _bearers_of(file: Path) -> Policy:
    tokens = _text(file, "token_file").split()
    if not tokens or not all(is_token(token) and len(token) >= LEAST_TOKEN for token in tokens):
        rule = f"must hold tokens, one a line, each of {LEAST_TOKEN} to {MOST_TOKEN:,} printable ASCII characters"
        raise InvalidParametersError(name="token_file", value=str(file), rule=rule)
    digests = tuple(hashlib.sha256(token.encode()).digest() for token in tokens)
    everything = dict.fromkeys(Right, _matching([_ANY_CHANNEL]))
    return Policy([Identity(_BEARERS, digests, (), everything)])


def _policy_of(file: Path) -> Policy:
    def refuse(rule: str) -> NoReturn:
        raise InvalidParametersError(name="rights", value=str(file), rule=rule) from None

    text = _text(file, "rights")
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # that of TOML, and one of int
        refuse(f"must be a file of TOML ({error})")
    tables = content.pop("identities", {})
    if content or not isinstance(tables, dict) or not tables:
        refuse("must have one table [identities.NAME] for each client, and nothing else")
    identities = [_identity(name, table, refuse) for name, table in tables.items()]
    owners: dict[bytes | str, str] = {}
    for each in identities:
        for what, items in (("token", each.digests), ("certificate", each.certificates)):
            for item in items:
                if item in owners:
                    refuse(
                        f"must name each {what} once, not in [identities.{owners[item]}] and [identities.{each.name}]"
                    )
                owners[item] = each.name
    return Policy(identities)


def _identity(name: str, table: Any, refuse: Any) -> Identity:
    where = f"[identities.{name}]"
    if not isinstance(table, dict):
        refuse(f"must have {where} as a table")
    known = ["tokens", "certificates", *(right.value for right in Right)]
    if strange := [key for key in table if key not in known]:
        refuse(f"must not have {strange[0]!r} in {where}, but {', '.join(known)}")
    lists = {key: table.get(key, []) for key in known}
    for key, items in lists.items():
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            refuse(f"must have a list of texts as {key} in {where}")
    digests = [_DIGEST.fullmatch(token) for token in lists["tokens"]]
    if not all(digests):  # the text may be a token, so it is not shown
        refuse(f"must have digests as tokens in {where}, as sha256: and 64 hexadecimal digits, not tokens themselves")
    return Identity(
        name,
        tuple(bytes.fromhex(found[1]) for found in digests if found is not None),
        tuple(lists["certificates"]),
        {right: _matching(lists[right.value]) for right in Right},
    )


def _matching(patterns: Sequence[str]) -> re.Pattern[str]:
    """As ``fnmatchcase`` of any of them."""
    return re.compile("|".join(map(translate, patterns)) if patterns else r"(?!)")


def _text(file: Path, name: str) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        rule = f"must be a file of text that can be read ({getattr(error, 'strerror', None) or error})"
        raise InvalidParametersError(name=name, value=str(file), rule=rule) from None
