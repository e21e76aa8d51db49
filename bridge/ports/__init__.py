"""The ports: what the runtime needs from the outside, and what it is promised.

Each protocol is the least that its caller needs. Every implementation passes the suite of its port in
`tests/contract/`, the shipped fakes included.
"""

from bridge.core.model import Meta
from bridge.ports.clock import Clock
from bridge.ports.kinds import Bounds, Finding, Outgoing, Seen, Sender, StreamKind, TargetKind
from bridge.ports.rows import (
    AttemptRow,
    ClosedRow,
    DeadLetterRow,
    ForgetRow,
    OpenedRow,
    Origin,
    Receipt,
    RelayedRow,
    ReplayedRow,
    ResultRow,
    Row,
    RunRow,
)
from bridge.ports.stores import Claim, Committer, Intent, Prior, Replay, RunState, Store
from bridge.ports.streams import (
    AdvancesLanes,
    KeepsPlaces,
    Lanes,
    Ledger,
    Lends,
    Letter,
    Pauses,
    Producer,
    Relay,
    Releases,
    Reports,
    Router,
    TakesLanes,
)
from bridge.ports.targets import Launched, Target

__all__ = [
    "AdvancesLanes",
    "AttemptRow",
    "Bounds",
    "Claim",
    "Clock",
    "ClosedRow",
    "Committer",
    "DeadLetterRow",
    "Finding",
    "ForgetRow",
    "Intent",
    "KeepsPlaces",
    "Lanes",
    "Launched",
    "Ledger",
    "Lends",
    "Letter",
    "Meta",
    "OpenedRow",
    "Origin",
    "Outgoing",
    "Pauses",
    "Prior",
    "Producer",
    "Receipt",
    "Relay",
    "RelayedRow",
    "Releases",
    "Replay",
    "ReplayedRow",
    "Reports",
    "ResultRow",
    "Router",
    "Row",
    "RunRow",
    "RunState",
    "Seen",
    "Sender",
    "Store",
    "StreamKind",
    "TakesLanes",
    "Target",
    "TargetKind",
]
