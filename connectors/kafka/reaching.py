"""Connecting, with words for what stands in the way: aiokafka says of all brokers together that it has reached none."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient

from bridge.core.errors import Refused, Transient
from connectors.kafka.errors import translating
from connectors.kafka.options import KafkaOptions
from connectors.kafka.probing import explained, parts_of, probe
from connectors.kafka.security import client_settings

_FOR_GOOD: Final = (
    kafka.SaslAuthenticationFailed,
    kafka.AuthenticationFailedError,
    kafka.UnsupportedSaslMechanismError,
    kafka.IllegalSaslStateError,
    ssl.SSLCertVerificationError,
)


async def reach(client: AIOKafkaAdminClient, options: KafkaOptions) -> None:
    """Starts a client. Raises Refused where a broker does not take us for who we are, or we not it; else Transient.

    A token that is not taken may be followed by one that is, so that is Transient too.
    """
    try:
        with translating("connecting"):
            await client.start()
    except Transient as error:
        raise await _obstacle(options) from error
    if not client._client.cluster.brokers():  # a token was refused, which aiokafka takes for a yes
        raise await _obstacle(options)


async def _obstacle(options: KafkaOptions) -> Refused | Transient:
    settings = client_settings(options)
    servers = options.bootstrap_servers
    failures = await asyncio.gather(*(probe(settings, *parts_of(server)) for server in servers))
    found = [explained(why, server, options) for server, why in zip(servers, failures, strict=True) if why is not None]
    told = "; ".join(f"{finding.message} ({finding.hint})" for finding in found)
    said = f"no broker can be asked: {told or 'now one answers'}"
    renews = options.sasl is not None and options.sasl.mechanism == "OAUTHBEARER"
    for_good = not renews and any(isinstance(why, _FOR_GOOD) for why in failures)
    return Refused(said) if for_good else Transient(said)
