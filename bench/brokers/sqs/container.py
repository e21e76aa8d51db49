"""An image that speaks SQS, in a container: what `containers` means for it. By default ElasticMQ."""

from __future__ import annotations

from bench.brokers.one_port import OnePort


class SqsInContainer(OnePort):
    broker = "sqs"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"
