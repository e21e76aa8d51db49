"""A Kafka with locks on all doors but one: TLS, SASL, and an authorizer that allows nothing by itself.

    async def test_x(secured_kafka: SecuredKafka) -> None:
        name = "x-" + uuid4().hex[:8]
        await topics.create(secured_kafka.bootstrap, name)          # the plain door belongs to the administrator
        await secured_kafka.allow("reader", topic=name)             # READ and DESCRIBE; no group yet
        ... bootstrap_servers=secured_kafka.sasl, username "reader", password secured_kafka.passwords["reader"]

| address | what it asks for |
|---|---|
| `bootstrap` | nothing: ANONYMOUS, a super user. For set-up and control |
| `tls` | TLS, no client certificate. Who comes is ANONYMOUS |
| `mutual_tls` | TLS with a client certificate: User:CN=client, who has no rights until `allow("CN=client", ...)` |
| `sasl` | SASL without TLS: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER |
| `sasl_tls` | the same within TLS |

Users of PLAIN and SCRAM, all with a password of their own in `passwords`: `admin` (a super user), `reader` and `nobody`
(no rights until `allow`; leave `nobody` without any). OAUTHBEARER takes unsecured tokens: `token("reader")`.
`certificates` are PEM files: `.ca`, `.client`, `.client_key`, `.locked_key` with `.password`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path

from aiokafka.errors import for_code
from aiokafka.protocol.admin import CreateAclsRequest

from bench.brokers import certificates
from bench.brokers.kafka import Kafka
from bench.brokers.processes import free_port
from bench.brokers.properties import Listener
from bench.brokers.topics import PATIENCE, admin

USERS = ("admin", "reader", "nobody")
SECURITY = "org.apache.kafka.common.security"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"

# Numbers of Kafka's protocol: resource types, the literal pattern, permissions, and operations.
TOPIC, GROUP, LITERAL, DENY, ALLOW = 2, 3, 3, 2, 3
OPERATIONS = {"ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}


class SecuredKafka(Kafka):
    """See the head of this module."""

    def __init__(self, folder: Path) -> None:
        self.certificates = certificates.make(folder / "certificates")
        self.passwords = {user: f"{user}-secret" for user in USERS}
        self._ports = {name: free_port() for name in ("TLS", "MUTUAL", "SASL", "SASL_TLS")}
        protocols = {"TLS": "SSL", "MUTUAL": "SSL", "SASL": "SASL_PLAINTEXT", "SASL_TLS": "SASL_SSL"}
        super().__init__(
            folder,
            doors=[Listener(name, port, port, protocols[name]) for name, port in self._ports.items()],
            settings=self._settings_of_locks(),
            accounts=[
                f"{mechanism}=[name={user},password={password},iterations=4096]"
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                for user, password in self.passwords.items()
            ],
        )

    @property
    def tls(self) -> str:
        return f"127.0.0.1:{self._ports['TLS']}"

    @property
    def mutual_tls(self) -> str:
        return f"127.0.0.1:{self._ports['MUTUAL']}"

    @property
    def sasl(self) -> str:
        return f"127.0.0.1:{self._ports['SASL']}"

    @property
    def sasl_tls(self) -> str:
        return f"127.0.0.1:{self._ports['SASL_TLS']}"

    async def allow(self, user: str, *operations: str, topic: str | None = None, group: str | None = None) -> None:
        """`operations` are READ and DESCRIBE if none are named. Returns when the broker has taken it in."""
        for kind, name in ((TOPIC, topic), (GROUP, group)):
            for operation in operations or ("READ", "DESCRIBE"):
                if name is not None:
                    await self._rule(kind, name, user, OPERATIONS[operation], ALLOW)

    async def forbid(self, user: str, topic: str) -> None:
        """To read it, whatever is allowed."""
        await self._rule(TOPIC, topic, user, OPERATIONS["READ"], DENY)

    async def _rule(self, kind: int, name: str, user: str, operation: int, permission: int) -> None:
        request = CreateAclsRequest(kind, name, LITERAL, f"User:{user}", "*", operation, permission)
        async with asyncio.timeout(PATIENCE), admin(self.bootstrap) as client:
            answer = await client._send_to_controller(request)  # aiokafka knows this request, and has no method for it
        for error in answer.to_object()["creation_responses"]:
            if error["error_code"]:
                raise for_code(error["error_code"])(error["error_message"])

    def _settings_of_locks(self) -> dict[str, str]:
        authority, server = self.certificates.ca, self.certificates.server
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "allow.everyone.if.no.acl.found": "false",
        }
        known = " ".join(f'user_{user}="{password}"' for user, password in self.passwords.items())
        modules = {
            "plain": f"{SECURITY}.plain.PlainLoginModule required {known};",
            "scram-sha-256": f"{SECURITY}.scram.ScramLoginModule required;",
            "scram-sha-512": f"{SECURITY}.scram.ScramLoginModule required;",
            "oauthbearer": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        }
        for door in ("sasl", "sasl_tls"):
            settings[f"listener.name.{door}.sasl.enabled.mechanisms"] = MECHANISMS
            for mechanism, module in modules.items():
                settings[f"listener.name.{door}.{mechanism}.sasl.jaas.config"] = module
        return settings


def token(user: str, lifetime: float = 3600.0) -> str:
    """An unsecured JWT, as Kafka's built-in validator takes them: no signature, `alg` none. Lifetime in seconds.

    Issued a while ago: the broker looks at its own clock, and refuses what was issued a millisecond after that.
    """
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now - 100.0, "exp": now + lifetime})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
