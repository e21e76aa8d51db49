"""How we reach the brokers and prove who we are: keyword arguments that consumers, producers and admin clients share.

No secret leaves here but into the client: none is in a repr, a log line or an error.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any, Final

from bridge.core.errors import Refused
from connectors.kafka.options import KafkaOptions, Sasl, Tls
from connectors.kafka.tokens import tokens_of

_CONNECTIONS: Final = logging.getLogger("aiokafka.conn")


def client_settings(options: KafkaOptions) -> dict[str, Any]:
    """Arguments of AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient and AIOKafkaClient alike.

    Raises Refused for certificates or a token provider that can't be used.
    """
    settings: dict[str, Any] = {
        "bootstrap_servers": list(options.bootstrap_servers),
        "client_id": options.client_id,
        "request_timeout_ms": int(options.request_timeout * 1000),
        "security_protocol": protocol_of(options),
    }
    if options.tls is not None:
        settings["ssl_context"] = ssl_context(options.tls)
    if options.sasl is not None:
        settings |= _sasl(options.sasl, options.request_timeout)
    return settings


def protocol_of(options: KafkaOptions) -> str:
    """As Kafka calls it: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    transport = "PLAINTEXT" if options.tls is None else "SSL"
    return transport if options.sasl is None else f"SASL_{transport}"


def _sasl(sasl: Sasl, timeout: float) -> dict[str, Any]:
    _keep_secrets_out_of_the_log()
    if sasl.mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": sasl.mechanism, "sasl_oauth_token_provider": tokens_of(sasl.token, timeout)}
    if sasl.username is None or sasl.password is None:
        raise Refused(f"`sasl`: {sasl.mechanism} needs `username` and `password`")
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": sasl.username,
        "sasl_plain_password": sasl.password,
    }


def _keep_secrets_out_of_the_log() -> None:
    """At `debug` aiokafka logs whole requests, and with SASL the password is one of them."""
    if _CONNECTIONS.getEffectiveLevel() < logging.INFO:
        _CONNECTIONS.setLevel(logging.INFO)


# TLS -----------------------------------------------------------------------------------------------------------------


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Raises Refused with what is wrong with which file."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ValueError) as error:
        want = "certificates in PEM, of whoever signed those of the brokers"
        raise Refused(_unusable("ca_file", tls.ca_file, error, want)) from error
    if not tls.check_hostname or not tls.verify:
        context.check_hostname = False
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        _load_own(context, tls, tls.cert_file)
    return context


def _load_own(context: ssl.SSLContext, tls: Tls, cert_file: str) -> None:
    password = tls.key_password or ""
    try:
        context.load_cert_chain(cert_file, tls.key_file, lambda: password)  # without one OpenSSL would ask the terminal
    except (OSError, ValueError) as error:
        name, path = ("key_file", tls.key_file) if _is_missing(tls.key_file) else ("cert_file", cert_file)
        want = "a certificate in PEM, its key beside it or in `key_file`; an encrypted key needs `key_password`"
        raise Refused(_unusable(name, path, error, want)) from error


def _is_missing(path: str | None) -> bool:
    if path is None:
        return False
    try:
        with open(path, "rb"):
            return False
    except OSError:
        return True


def _unusable(name: str, path: str | None, error: Exception, want: str) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"`tls.{name}` {path}: can't be used ({said or type(error).__name__}); it holds {want}"
