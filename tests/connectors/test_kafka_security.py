"""How a client gets in: what aiokafka is told, where tokens come from, and that no secret is said aloud."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError

from bridge.core.errors import Refused
from connectors.kafka.options import KafkaOptions, Sasl, Tls, Token, check
from connectors.kafka.security import client_settings, ssl_context
from connectors.kafka.tokens import Tokens, tokens_of

SECRET = "hunter2-and-more"
PROVIDERS = """
import asyncio
from aiokafka.abc import AbstractTokenProvider

class Counting:
    def __init__(self, secret=""):
        self.secret, self.given = secret, 0
    async def token(self):
        self.given += 1
        return f" token-{self.given}\\n"
    def extensions(self):
        return {"logicalCluster": "lkc-1"}

class Broken(Counting):
    async def token(self):
        raise LookupError(f"login with {self.secret} gave {'eyJhbGciOiJSUzI1NiIs' * 3}.x")

class Slow(Counting):
    async def token(self):
        await asyncio.Event().wait()

class Bytes(Counting):
    async def token(self):
        return b"token"

class Empty(Counting):
    async def token(self):
        return " "

class Blocking(Counting):
    def token(self):
        return "token"

class Unmade(Counting):
    def __init__(self, secret):
        raise ValueError(f"no such user: {secret}")

class Theirs(AbstractTokenProvider):
    async def token(self):
        return "theirs"

class Nothing:
    pass
"""


def options_of(**keys: Any) -> KafkaOptions:
    written: dict[str, Any] = {"bootstrap_servers": ["127.0.0.1:9092"], "group_id": "headrace", "topics": ["orders"]}
    return KafkaOptions(**{**written, **keys})


@pytest.fixture
def providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "my_tokens.py").write_text(PROVIDERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("my_tokens", None)


def tokens_from(name: str, timeout: float = 5.0) -> Tokens:
    return tokens_of(Token(provider=f"my_tokens:{name}", kwargs={"secret": SECRET}), timeout)


async def told_by(tokens: Tokens) -> str:
    with pytest.raises(KafkaConnectionError) as raised:
        await tokens.token()
    assert SECRET not in str(raised.value)
    return str(raised.value)


# Arguments -----------------------------------------------------------------------------------------------------------


async def test_every_client_takes_the_settings() -> None:
    sasl = Sasl(mechanism="SCRAM-SHA-512", username="u", password=SECRET)
    AIOKafkaClient(**client_settings(options_of()))
    AIOKafkaClient(**client_settings(options_of(sasl=sasl, tls=Tls())))


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol"),
    [(False, False, "PLAINTEXT"), (True, False, "SSL"), (False, True, "SASL_PLAINTEXT"), (True, True, "SASL_SSL")],
)
def test_the_protocol_follows_from_what_is_written(tls: bool, sasl: bool, protocol: str) -> None:
    who = Sasl(mechanism="PLAIN", username="u", password=SECRET)
    settings = client_settings(options_of(tls=Tls() if tls else None, sasl=who if sasl else None))
    assert settings["security_protocol"] == protocol
    assert ("ssl_context" in settings) == tls
    assert settings.get("sasl_plain_password") == (SECRET if sasl else None)


def test_the_password_stays_out_of_a_log_at_debug() -> None:
    logger = logging.getLogger("aiokafka.conn")
    before = logger.level
    try:
        logger.setLevel(logging.DEBUG)
        client_settings(options_of(sasl=Sasl(mechanism="PLAIN", username="u", password=SECRET)))
        assert not logger.isEnabledFor(logging.DEBUG)
    finally:
        logger.setLevel(before)


def test_certificates_are_verified_unless_that_is_turned_off() -> None:
    assert ssl_context(Tls()).verify_mode is ssl.CERT_REQUIRED
    assert ssl_context(Tls()).check_hostname
    assert not ssl_context(Tls(check_hostname=False)).check_hostname
    assert ssl_context(Tls(check_hostname=False)).verify_mode is ssl.CERT_REQUIRED
    assert ssl_context(Tls(verify=False)).verify_mode is ssl.CERT_NONE


def test_a_certificate_that_can_t_be_loaded_is_named_with_its_key(tmp_path: Path) -> None:
    cert = tmp_path / "client.pem"
    cert.write_text("nothing of the kind")
    with pytest.raises(Refused, match=f"`tls.cert_file` {cert}"):
        ssl_context(Tls(cert_file=str(cert)))
    with pytest.raises(Refused, match=r"`tls\.key_file` /nowhere/key\.pem"):
        ssl_context(Tls(cert_file=str(cert), key_file="/nowhere/key.pem"))


# Tokens --------------------------------------------------------------------------------------------------------------


async def test_each_connection_asks_for_a_fresh_token(providers: Any) -> None:
    tokens = tokens_from("Counting")
    assert isinstance(tokens, AbstractTokenProvider)  # as aiokafka asks
    assert [await tokens.token(), await tokens.token()] == ["token-1", "token-2"]
    assert tokens.extensions() == {"logicalCluster": "lkc-1"}


async def test_aiokafkas_own_base_class_will_do(providers: Any) -> None:
    tokens = tokens_of(Token(provider="my_tokens:Theirs"), 5.0)
    assert (await tokens.token(), tokens.extensions()) == ("theirs", {})


async def test_what_a_provider_raises_is_told_without_secrets_and_tokens(providers: Any) -> None:
    tokens = tokens_from("Broken")
    said = await told_by(tokens)
    assert "`token.provider` my_tokens:Broken raised LookupError: login with *** gave ***" in said
    assert tokens.failures == 1
    assert SECRET not in repr(tokens)


async def test_a_provider_that_hangs_is_given_up(providers: Any) -> None:
    assert "gave no token within 0.01 s" in await told_by(tokens_from("Slow", timeout=0.01))


@pytest.mark.parametrize(("name", "what"), [("Bytes", "gave bytes for a token"), ("Empty", "gave an empty token")])
async def test_what_is_no_token_is_told(providers: Any, name: str, what: str) -> None:
    assert what in await told_by(tokens_from(name))


async def test_being_cancelled_is_no_failure_of_the_provider(providers: Any) -> None:
    tokens = tokens_from("Slow")
    asking = asyncio.ensure_future(tokens.token())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert tokens.failures == 0


def test_a_provider_that_can_t_be_had_is_a_problem_at_start(providers: Any) -> None:
    def problem(path: str) -> str:
        [said] = check(options_of(sasl=Sasl(mechanism="OAUTHBEARER", token=Token(provider=path))))
        return said

    assert "there is no module nowhere" in problem("nowhere:Provider")
    assert "has no Countin, did you mean Counting?" in problem("my_tokens:Countin")
    assert "has a token() that is not async" in problem("my_tokens:Blocking")
    assert "has no token()" in problem("my_tokens:Nothing")


def test_one_that_can_t_be_made_does_not_tell_what_it_was_made_with(providers: Any) -> None:
    with pytest.raises(Refused) as raised:
        tokens_from("Unmade")
    assert str(raised.value).endswith("it raised ValueError")
    assert raised.value.__cause__ is None


# Amazon MSK ----------------------------------------------------------------------------------------------------------

SIGNER = """
import threading
def generate_auth_token(region, aws_debug_creds=False):
    return f"signed-for-{region}-in-{threading.current_thread() is threading.main_thread()}", 1_700_000_000_000
"""


def test_a_signer_that_is_not_installed_is_named() -> None:
    [said] = check(options_of(sasl=Sasl(mechanism="OAUTHBEARER", token=Token(msk_region="eu-west-1"))))
    assert "pip install aws-msk-iam-sasl-signer-python" in said


async def test_tokens_for_msk_are_signed_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "aws_msk_iam_sasl_signer"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "MSKAuthTokenProvider.py").write_text(SIGNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    try:
        token = Token(msk_region="eu-west-1")
        assert list(check(options_of(sasl=Sasl(mechanism="OAUTHBEARER", token=token)))) == []
        assert await tokens_of(token, 5.0).token() == "signed-for-eu-west-1-in-False"
    finally:
        for name in [name for name in sys.modules if name.startswith("aws_msk_iam_sasl_signer")]:
            del sys.modules[name]
