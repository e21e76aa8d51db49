"""Who we are to Google: an access token, fetched before the last one ends.

google-auth waits for files and servers, so it works in a thread of its own, which ends with the answer. A token travels
as metadata of each call; the client's own way starts a thread for each of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

import google.auth
from google.auth.credentials import Credentials
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from bridge.core.errors import HeadraceError
from connectors.pubsub.errors import CredentialsRefused, translated

Metadata = tuple[tuple[str, str], ...]
T = TypeVar("T")

_SCOPES: Final = ("https://www.googleapis.com/auth/pubsub",)
_FETCHED_WITHIN: Final = 30.0
_EARLY: Final = 300.0
"""Seconds before its end that a token is renewed: Google's own caches hand out a new one from then on."""
_AGAIN_AFTER: Final = 10.0


class Token(NamedTuple):
    """As metadata. `fresh` and `valid` are how many seconds it should, and may, be used."""

    metadata: Metadata
    fresh: float
    valid: float


class Tokens:
    """The token of one account. `fetch` is called in a thread; it may block and raise what google-auth raises."""

    def __init__(self, fetch: Callable[[], Token]) -> None:
        self._fetch = fetch
        self._metadata: Metadata = ()
        self._fresh_until = 0.0
        self._valid_until = 0.0
        self._fetching = asyncio.Lock()

    async def metadata(self) -> Metadata:
        """Raises CredentialsRefused or Transient where there is none, and the last one has ended."""
        if time.monotonic() < self._fresh_until:
            return self._metadata
        async with self._fetching:
            if time.monotonic() >= self._fresh_until:
                await self._renew()
        return self._metadata

    def refused(self) -> None:
        """The service did not take it."""
        self._fresh_until = self._valid_until = 0.0

    async def _renew(self) -> None:
        began = time.monotonic()
        try:
            token = await in_thread(self._fetch, _FETCHED_WITHIN)
        except (HeadraceError, TimeoutError) as error:
            if time.monotonic() < self._valid_until:
                self._fresh_until = min(self._valid_until, time.monotonic() + _AGAIN_AFTER)
                return
            raise translated(error, "getting an access token from Google") from error
        self._metadata = token.metadata
        self._fresh_until, self._valid_until = began + token.fresh, began + token.valid


def fetching(credentials_file: str | None) -> Callable[[], Token]:
    """Finds the credentials at the first call, and keeps them."""
    found: list[Credentials] = []

    def fetch() -> Token:
        try:
            if not found:
                found.append(_found(credentials_file))
            request = Request()
            try:
                found[0].refresh(request)  # type: ignore[no-untyped-call]  # google-auth has few types
            finally:
                request.session.close()
            return token_of(found[0], datetime.now(UTC))
        except Exception as error:
            raise translated(error, "getting an access token from Google") from error

    return fetch


def _found(credentials_file: str | None) -> Credentials:
    if credentials_file is None:
        credentials, _ = google.auth.default(scopes=_SCOPES)
        return credentials
    try:
        load: Callable[..., Credentials] = service_account.Credentials.from_service_account_file
        return load(credentials_file, scopes=_SCOPES)
    except (OSError, ValueError, KeyError) as error:  # what these say may quote the file
        raise CredentialsRefused(
            f"`credentials_file` {credentials_file} holds no key of a service account ({type(error).__name__}): "
            "other kinds of credentials go into GOOGLE_APPLICATION_CREDENTIALS"
        ) from None


def token_of(credentials: Credentials, now: datetime) -> Token:
    """What has no end, or a short one, is asked for again half-way."""
    expiry = credentials.expiry  # naive, in UTC
    valid = 3600.0 if expiry is None else max(0.0, (expiry.replace(tzinfo=UTC) - now).total_seconds())
    metadata = [("authorization", f"Bearer {credentials.token}")]
    project = getattr(credentials, "quota_project_id", None)
    if project:
        metadata.append(("x-goog-user-project", project))
    return Token(tuple(metadata), max(valid - _EARLY, valid / 2), valid)


async def in_thread(work: Callable[[], T], within: float) -> T:
    """Runs it in a thread that nobody else uses, and which nothing waits for: it may hang."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def done(result: T | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # T may be None itself

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(done, result, failure)

    threading.Thread(target=run, name="pubsub-credentials", daemon=True).start()
    async with asyncio.timeout(within):
        return await answer
