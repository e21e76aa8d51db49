"""Tokens for SASL OAUTHBEARER: from a class of the user's own, or signed for IAM on Amazon MSK.

aiokafka asks for a token at each new connection and keeps none, so each connection begins with a fresh one (B07). It
knows how to go on after errors of its own alone: whatever goes wrong here leaves as a KafkaConnectionError, which is
tried again with back-off, and says nothing that could be a token.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import structlog
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from bridge.core.errors import Refused
from bridge.importing import load_class
from connectors.kafka.options import Token

log = structlog.get_logger("headrace.kafka")

WITHIN: Final = 10.0
"""Seconds that a provider may take for a token."""
MSK_MODULE: Final = "aws_msk_iam_sasl_signer"
MSK_PACKAGE: Final = "aws-msk-iam-sasl-signer-python"

_SHORTEST: Final = 4  # masking every "1" of a message would hide more than it protects
_LONGEST_SAID: Final = 200
_OPAQUE: Final = re.compile(r"[A-Za-z0-9_\-+/=.~%]{32,}")

Ask = Callable[[], Awaitable[object]]


class Tokens:
    """What aiokafka asks. `name` is for people; `extensions` go with a token where the provider has some."""

    def __init__(
        self, name: str, ask: Ask, timeout: float, secrets: tuple[str, ...] = (), provider: Any = None
    ) -> None:
        self._name = name
        self._ask = ask
        self._timeout = timeout
        self._secrets = secrets
        self._extensions: Callable[[], Mapping[str, str]] | None = getattr(provider, "extensions", None)
        self.failures = 0

    def __repr__(self) -> str:
        return f"Tokens({self._name!r})"

    async def token(self) -> str:
        """A fresh one. Raises KafkaConnectionError."""
        try:
            async with asyncio.timeout(self._timeout):
                given = await self._ask()
        except TimeoutError:
            raise self._failed(f"gave no token within {self._timeout:g} s") from None
        except Exception as error:  # somebody's code: it may do anything
            raise self._failed(f"raised {self._told(error)}") from None
        if not isinstance(given, str):
            raise self._failed(f"gave {type(given).__name__} for a token, and not text")
        token = given.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise self._failed(
                "gave an empty token" if not token else "gave a token with characters that none may have"
            )
        return token

    def extensions(self) -> dict[str, str]:
        """Never raises: a connection without them is refused with a reason, one that breaks here without."""
        try:
            return dict(self._extensions()) if self._extensions is not None else {}
        except Exception as error:
            log.warning("extensions of a token could not be had", provider=self._name, error=self._told(error))
            return {}

    def _failed(self, what: str) -> KafkaConnectionError:
        self.failures += 1
        log.warning("no token for the brokers", provider=self._name, error=what, failures=self.failures)
        return KafkaConnectionError(f"no token for the brokers: {self._name} {what}")

    def _told(self, error: Exception) -> str:
        """In a line, without what it was made with, and without anything as long as a token."""
        words = " ".join(str(error).split())[:_LONGEST_SAID]
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return f"{type(error).__name__}: {_OPAQUE.sub('***', words)}"


AbstractTokenProvider.register(Tokens)  # aiokafka asks for one


def tokens_of(token: Token | None, request_timeout: float) -> Tokens:
    """Raises Refused where the provider can't be had."""
    within = min(WITHIN, request_timeout)
    if token is not None and token.msk_region is not None:
        return Tokens(f"the signer for MSK in {token.msk_region}", _msk(token.msk_region), within)
    if token is None or token.provider is None:
        raise Refused("`sasl`: OAUTHBEARER needs `token` with a `provider`, or with `msk_region`")
    provider = _made(token.provider, token.kwargs)
    secrets = tuple(sorted(set(_texts(token.kwargs)), key=len, reverse=True))
    return Tokens(f"`token.provider` {token.provider}", provider.token, within, secrets, provider)


def token_problems(token: Token) -> list[str]:
    """What keeps tokens from being had, as sentences; the provider is imported and not made."""
    if (token.provider is None) == (token.msk_region is None):
        what = "both are there" if token.provider else "there is neither"
        return [f"`sasl.token` has either `provider` or `msk_region`, and {what}"]
    if token.provider is None:
        return [] if find_spec(MSK_MODULE) else [_no_signer()]
    try:
        _class_of(token.provider)
    except Refused as error:
        return [str(error)]
    return []


def _class_of(path: str) -> type[Any]:
    found = load_class(path, "sasl.token.provider", object)
    token = getattr(found, "token", None)
    if not (issubclass(found, AbstractTokenProvider) or inspect.iscoroutinefunction(token)):
        saw = "has no token()" if token is None else "has a token() that is not async"
        raise Refused(f"`sasl.token.provider` {path!r} {saw}: it needs `async def token(self) -> str`")
    return found


def _made(path: str, kwargs: Mapping[str, Any]) -> Any:
    found = _class_of(path)
    try:
        return found(**kwargs)
    except Exception as error:
        # Its words may hold what it was made with.
        raise Refused(f"`sasl.token.provider` {path!r} can't be made: it raised {type(error).__name__}") from None


def _msk(region: str) -> Ask:
    """In a thread: looking up credentials asks files and the network."""
    try:
        signer = import_module(f"{MSK_MODULE}.MSKAuthTokenProvider")
    except ImportError as error:
        raise Refused(_no_signer()) from error

    async def ask() -> object:
        token, _expires_at = await asyncio.to_thread(signer.generate_auth_token, region)
        return token

    return ask


def _no_signer() -> str:
    return f"`sasl.token.msk_region` needs the package {MSK_PACKAGE}, which is not installed: pip install {MSK_PACKAGE}"


def _texts(value: object) -> Iterator[str]:
    """Every text in the arguments of a provider, but for those too short to look for."""
    if isinstance(value, str):
        if len(value) >= _SHORTEST:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
