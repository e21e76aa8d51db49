"""Which queue is meant: URLs, ARNs and names of queues, taken apart. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from connectors.sqs.options import SqsOptions

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ARN: Final = re.compile(r"arn:aws[a-z-]*:sqs:([a-z0-9-]+):([0-9]+):(.+)")
_AWS_HOST: Final = re.compile(
    r"(?:sqs(?:-fips)?\.(?P<region>[a-z0-9-]+)|(?P<legacy>[a-z0-9-]+)\.queue|(?P<first>queue))\.amazonaws\.com(?:\.cn)?"
    r"|sqs(?:-fips)?\.(?P<dual>[a-z0-9-]+)\.api\.(?:aws|amazonwebservices\.com\.cn)"
)
FIFO: Final = ".fifo"


class Queue(NamedTuple):
    """A queue as it was written. `url` None: it has to be asked for. What is not known of it is None."""

    name: str
    account: str | None = None
    region: str | None = None
    url: str | None = None
    is_aws: bool = True

    @property
    def is_fifo(self) -> bool:
        """Messages of a group are in order. SQS itself tells by the name."""
        return self.name.endswith(FIFO)


def queue_of(written: str) -> Queue:
    """From a URL, an ARN or a name. Raises ValueError, with a sentence, for what is none of them."""
    if "://" in written:
        return _of_url(written)
    if written.startswith("arn:"):
        found = _ARN.fullmatch(written)
        if found is None:
            raise ValueError(f"{written!r} is no ARN of a queue: write arn:aws:sqs:REGION:ACCOUNT:NAME")
        return Queue(_named(found[3], written), found[2], found[1])
    return Queue(_named(written, written))


def _of_url(written: str) -> Queue:
    parts = urlsplit(written)
    path = [part for part in parts.path.split("/") if part]
    if parts.scheme not in ("http", "https") or not parts.hostname or not path or parts.query or "@" in parts.netloc:
        raise ValueError(f"{written!r} is no URL of a queue: write https://sqs.REGION.amazonaws.com/ACCOUNT/NAME")
    account = path[-2] if len(path) > 1 and path[-2].isdecimal() else None
    host = _AWS_HOST.fullmatch(parts.hostname)
    region = None
    if host is not None:
        region = host["region"] or host["legacy"] or host["dual"] or "us-east-1"  # `queue.` is the oldest region
    return Queue(_named(path[-1], written), account, region, written, host is not None)


def _named(name: str, written: str) -> str:
    if _NAME.fullmatch(name.removesuffix(FIFO)) is None or len(name) > 80:
        raise ValueError(
            f"{written!r}: {name!r} can't be the name of a queue: letters, digits, '-' and '_', 80 at most, and "
            "`.fifo` at the end of those that keep an order"
        )
    return name


def source_of(options: SqsOptions) -> str:
    """`sqs:<region>/<account>/<name>`, `-` for what is not written: the name of the source in run keys."""
    queue = queue_of(options.queue)
    return f"sqs:{queue.region or options.region or '-'}/{queue.account or '-'}/{queue.name}"
