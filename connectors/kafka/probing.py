"""Whether a broker can be reached and lets us in, and if not, what is in the way. For people.

aiokafka's clients say of all brokers together that they can't be reached; here each is tried by itself, so that the
first thing that went wrong is known.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from bridge.ports import Finding
from connectors.kafka.options import KafkaOptions
from connectors.kafka.security import client_settings, protocol_of

WITHIN: Final = 6.0
"""Seconds that a broker gets to let us in."""

_REFUSED: Final = (kafka.SaslAuthenticationFailed, kafka.AuthenticationFailedError)
_CLOSED: Final = (EOFError, ConnectionError, kafka.KafkaConnectionError)


async def probe(settings: dict[str, Any], host: str, port: int) -> Exception | None:
    """What went wrong while connecting, proving who we are, and asking something; None where all went well."""
    own = {key: value for key, value in settings.items() if key not in ("bootstrap_servers", "request_timeout_ms")}
    connection = None
    try:
        async with asyncio.timeout(WITHIN):
            connection = await create_conn(host, port, request_timeout_ms=int(WITHIN * 1000), **own)
            answer: Any = await connection.send(MetadataRequest([], False))  # who needs SASL is told only now
        if not answer.brokers and own.get("sasl_mechanism") == "OAUTHBEARER":
            # The broker says in words what it thinks of the token. aiokafka takes that for a yes.
            refused: Exception = kafka.SaslAuthenticationFailed("the token was refused")
            return refused
    except Exception as error:
        return error
    finally:
        if connection is not None:
            connection.close()
    return None


async def why_not(options: KafkaOptions) -> str:
    """Why no broker lets us in: a sentence for each."""
    settings = client_settings(options)
    servers: list[str] = settings["bootstrap_servers"]
    failures = await asyncio.gather(*(probe(settings, *parts_of(server)) for server in servers))
    told = [explained(why, server, options) for server, why in zip(servers, failures, strict=True) if why is not None]
    return "; ".join(f"{finding.message} ({finding.hint})" for finding in told) or "now it can, try again"


def parts_of(server: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def explained(error: Exception, server: str, options: KafkaOptions) -> Finding:
    """The error as a finding about `server`, with what to do. The cases of which aiokafka's words say too little."""
    protocol = protocol_of(options)
    for kinds, case in _CASES:
        if isinstance(error, kinds):
            what, hint = case(error, protocol)
            return Finding("error", f"{server}: {what}", hint)
    words = " ".join(str(error).split()) or "no more is known"
    return Finding("error", f"{server}: {type(error).__name__}: {words}", f"we connect with {protocol}")


Told = tuple[str, str]


def _name(_error: Exception, _protocol: str) -> Told:
    return "no such host", "correct the name in `bootstrap_servers`, or the resolution of names on this machine"


def _certificate(error: Exception, _protocol: str) -> Told:
    why = getattr(error, "verify_message", "") or str(error)
    return (
        f"its certificate is not accepted: {why}",
        "name the certificates of whoever signed it in `tls.ca_file`; the host must be one that the certificate is for",
    )


def _tls(error: Exception, _protocol: str) -> Told:
    reason = getattr(error, "reason", "") or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "what listens there speaks no TLS", "remove `tls`, or name the port of a TLS listener"
    if "CERTIFICATE_REQUIRED" in reason or "ALERT" in reason:
        return (
            f"it has refused our side of TLS ({reason})",
            "a listener that asks for certificates of its clients needs `tls.cert_file` and `tls.key_file`",
        )
    return f"TLS failed: {reason}", "look at `tls`, and at what the listener asks for"


def _silent(_error: Exception, _protocol: str) -> Told:
    return (
        f"no answer within {WITHIN:g} s",
        "is the port right, does a firewall drop packets, does the listener speak the protocol of `tls` and `sasl`?",
    )


def _mechanism(error: Exception, _protocol: str) -> Told:
    words = str(error).partition("Enabled mechanisms are: ")[2]
    enabled = f"it takes {words}" if words else "it takes other mechanisms"
    return f"it does not know our SASL mechanism; {enabled}", "correct `sasl.mechanism`"


def _no_sasl(_error: Exception, _protocol: str) -> Told:
    return "the listener asks for no SASL", "remove `sasl`, or name the port of a listener that does"


def _denied(error: Exception, _protocol: str) -> Told:
    words = str(error).rpartition(": ")[2]
    return f"we are not let in: {words}", "correct `sasl`: who we are, and the password or token"


def _nobody(_error: Exception, _protocol: str) -> Told:
    return "nobody listens there", "is the broker up, and the port right?"


def _closed(error: Exception, protocol: str) -> Told:
    if isinstance(error, kafka.KafkaConnectionError) and "no token for the brokers" in str(error):
        return str(error).partition(": ")[2], "the class behind `sasl.token` has to give a token, fresh each time"
    wants = {
        "PLAINTEXT": "it may want TLS or SASL: add `tls` or `sasl`, or name the port of a PLAINTEXT listener",
        "SSL": "it may speak no TLS (remove `tls`), or want SASL or a certificate of ours (`sasl`, `tls.cert_file`)",
        "SASL_PLAINTEXT": "it may want TLS: add `tls`, or name the port of a SASL_PLAINTEXT listener",
        "SASL_SSL": "it may speak no TLS (remove `tls`), or want a certificate of ours as well (`tls.cert_file`)",
    }
    return f"it closed the connection, which we opened with {protocol}", wants[protocol]


_CASES: Final = (
    ((socket.gaierror,), _name),
    ((ssl.SSLCertVerificationError,), _certificate),
    ((ssl.SSLError,), _tls),
    ((TimeoutError, kafka.RequestTimedOutError), _silent),
    ((kafka.UnsupportedSaslMechanismError,), _mechanism),
    ((kafka.IllegalSaslStateError,), _no_sasl),
    (_REFUSED, _denied),
    ((ConnectionRefusedError,), _nobody),
    (_CLOSED, _closed),
)
