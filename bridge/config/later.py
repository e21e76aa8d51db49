"""What the design knows and this version does not do yet: refused by name, never taken for a typing error.

Keys with what to do until then, for each block; empty where there is nothing but leaving them out.
"""

from __future__ import annotations

from typing import Final

NOT_YET: Final = "is known, but not available in this version"

STREAM_KINDS: Final = ("directory", "python", "kafka", "sqs", "pubsub", "servicebus", "http")
TARGET_KINDS: Final = ("command", "log", "airflow", "prefect", "dagster", "webhook")

TOP: Final = {"server": ""}
STORE: Final = {"encryption": "", "pool_size": "", "pool_timeout": ""}
INSTANCE: Final = {"capacity": "", "queues": "", "team": ""}
STREAM: Final = {
    "id": "",
    "start": "",
    "dead_letter": "dead letters are kept in the store: see `headrace dlq list`",
    "on_unmatched": "leave it out: what no watcher matches is settled and counted",
    "queues": "leave it out: every instance runs every stream",
}
WATCHER: Final = {"max_runs_per_minute": ""}
RUN: Final = {
    "partition_key": "",
    "ordered": "",
    "batch": "",
    "debounce": "",
    "throttle": "",
    "concurrency": "leave it out: `max_in_flight` of the target bounds all its runs together",
}
TARGET: Final = {
    "rate": "leave it out: `max_in_flight` bounds what runs at once",
    "track": "",
    "max_pending": "`headrace status` shows how many runs wait",
}
