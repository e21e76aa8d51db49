"""Google's emulator in a container: what `containers` means for Pub/Sub."""

from __future__ import annotations

from bench.brokers.one_port import OnePort


class PubSubInContainer(OnePort):
    broker = "pubsub"
    control = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"
