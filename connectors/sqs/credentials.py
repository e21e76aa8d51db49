"""Who we are: AWS's own chain, which refreshes what it found; and found anew when AWS refuses what we hold.

The chain refreshes what has a time of expiry. It reads a file or the environment only once, so keys that were rotated
there would be refused for ever (B34): after a refusal everything is looked for again from the beginning.
No key is in a repr, a log line or an error.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from aiobotocore.credentials import (
    AioAssumeRoleCredentialFetcher,
    AioCredentials,
    AioDeferredRefreshableCredentials,
)
from aiobotocore.session import AioSession
from botocore.exceptions import NoCredentialsError

from connectors.sqs.options import SqsOptions

log = structlog.get_logger("headrace.sqs")

_AGAIN_AFTER: Final = 5.0
"""Seconds between two times that everything is looked for again, at least."""
_SESSION_NAME: Final = "headrace"


class Found(AioCredentials):  # type: ignore[misc]  # the client has no types
    """What a client signs with: it asks for `get_frozen_credentials` before each call. Nothing is looked for before."""

    def __init__(self, options: SqsOptions, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__("", "", method="headrace")
        self._options = options
        self._now = now
        self._inner: Any = None
        self._lock = asyncio.Lock()
        self._doubted = False
        self._looked_at = 0.0
        self._rest = _AGAIN_AFTER

    async def get_frozen_credentials(self) -> Any:
        """Raises NoCredentialsError where the chain ends without any."""
        inner = self._inner
        if inner is None or (self._doubted and self._now() - self._looked_at >= self._rest):
            async with self._lock:
                if self._inner is inner:  # and nobody else has looked meanwhile
                    self._inner = await self._look()
                inner = self._inner
        return await inner.get_frozen_credentials()

    def doubt(self) -> None:
        """AWS has refused them: the next call looks for others, but not at every call."""
        self._doubted = True

    async def _look(self) -> Any:
        self._looked_at = self._now()
        self._rest = _AGAIN_AFTER * (1 + random.random())  # noqa: S311
        options = self._options
        session = AioSession(profile=options.profile)
        found: Any
        if options.credentials is not None:
            given = options.credentials
            found = AioCredentials(given.access_key_id, given.secret_access_key, given.session_token)
        else:
            found = await session.get_credentials()
        if found is None:
            raise NoCredentialsError
        if options.role_arn is not None:
            found = _in_role(session, found, options, options.role_arn)
        self._doubted = False
        log.info("credentials found", queue=options.queue, source=str(getattr(found, "method", "") or "given"))
        return found


def _in_role(session: AioSession, found: Any, options: SqsOptions, arn: str) -> Any:
    """Taken on at the first call, and again before each hour is over."""
    region = options.region or session.get_config_variable("region")

    def client(service: str, **arguments: Any) -> Any:
        return session.create_client(service, region_name=region, **arguments)

    more = {"RoleSessionName": _SESSION_NAME} | ({"ExternalId": options.external_id} if options.external_id else {})
    fetcher = AioAssumeRoleCredentialFetcher(client, found, arn, extra_args=more)
    return AioDeferredRefreshableCredentials(refresh_using=fetcher.fetch_credentials, method="assume-role")


class Session(AioSession):  # type: ignore[misc]  # the client has no types
    """Its clients sign with `found`."""

    def __init__(self, found: Found, profile: str | None) -> None:
        super().__init__(profile=profile)
        self._found = found

    async def get_credentials(self) -> Any:
        return self._found


def calm_down() -> None:
    """At `debug` the client logs whole requests with their signature and token, and the bodies of answers. And of a
    refresh that failed it logs the stack at every call, which is ours to tell.
    """
    for name in ("botocore", "aiobotocore"):
        logger = logging.getLogger(name)
        if logger.getEffectiveLevel() < logging.INFO:
            logger.setLevel(logging.INFO)
    logging.getLogger("botocore.credentials").setLevel(logging.ERROR)
