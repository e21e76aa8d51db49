"""`headrace pause`, `resume`, `disable` and `enable`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bridge.cli.endings import Unmet
from bridge.cli.opening import Opened, opened
from bridge.cli.options import ActionOutput, ConfigPaths, StoreUrl, WatcherName
from bridge.cli.output import Format, say, say_json

if TYPE_CHECKING:
    from bridge.cli.asking import Answer

Kind = Literal["pause", "resume", "disable", "enable"]
Skip = Annotated[bool, typer.Option("--skip", help="Don't start the runs that were held back: they become `skipped`.")]


def pause(
    watcher: WatcherName, config: ConfigPaths = None, store: StoreUrl = None, output: ActionOutput = None
) -> None:
    """Hold back a watcher's runs, until `resume`.

    Its messages are still read and settled; their runs wait.

    \b
    Example:
      headrace pause eu_orders
    """
    _ask("pause", watcher, config, store, output)


def resume(
    watcher: WatcherName,
    skip: Skip = False,
    config: ConfigPaths = None,
    store: StoreUrl = None,
    output: ActionOutput = None,
) -> None:
    """Let a paused watcher's runs start again.

    Those that were held back come first, unless --skip leaves them out.

    \b
    Examples:
      headrace resume eu_orders
      headrace resume eu_orders --skip
    """
    _ask("resume", watcher, config, store, output, skip=skip)


def disable(
    watcher: WatcherName, config: ConfigPaths = None, store: StoreUrl = None, output: ActionOutput = None
) -> None:
    """Take a watcher out, until `enable`.

    It sees no messages, and those that pass meanwhile are not kept for it. What it was working on becomes dead
    letters, which can be replayed.

    \b
    Example:
      headrace disable eu_orders
    """
    _ask("disable", watcher, config, store, output)


def enable(
    watcher: WatcherName, config: ConfigPaths = None, store: StoreUrl = None, output: ActionOutput = None
) -> None:
    """Put a disabled watcher back.

    It sees the messages that come from now on.

    \b
    Example:
      headrace enable eu_orders
    """
    _ask("enable", watcher, config, store, output)


def _ask(
    kind: Kind,
    watcher: str,
    config: Sequence[Path] | None,
    store: str | None,
    output: Format | None,
    *,
    skip: bool = False,
) -> None:
    from bridge.cli.asking import wait_for

    found = opened(config, store)
    _refuse_unknown(watcher, found)
    answer = wait_for(found.reader, found.reader.post(kind, watcher=watcher, skip=skip))
    if output == "json":
        report = {"intent": answer.intent, "kind": kind, "watcher": watcher, "outcome": answer.outcome}
        say_json(report | ({"skip": skip} if kind == "resume" else {}))
    if answer.is_refused:
        raise Unmet(f"{kind} {watcher}: {answer.outcome}")
    if output != "json":
        say(_sentence(kind, watcher, skip, answer))


def _refuse_unknown(watcher: str, found: Opened) -> None:
    """Known is what the store has seen, and what is configured and may start later."""
    from bridge.config.suggest import listed, nearest

    seen = found.reader.watchers()
    known = {view.id for view in seen if view.removed_at is None}
    if found.config is not None:
        known |= {each.id for each in found.config.watchers}
    if watcher in known:
        return
    near = nearest(watcher, known)
    if near is not None:
        hint = f"did you mean {near!r}?"
    else:
        hint = f"there are {listed(sorted(known))}" if known else "there is none yet"
    if any(view.id == watcher for view in seen):
        raise Unmet(f"the watcher {watcher!r} was removed from the configuration; {hint}")
    raise Unmet(f"there is no watcher {watcher!r}; {hint}")


def _sentence(kind: Kind, watcher: str, skip: bool, answer: Answer) -> str:
    state = {"pause": "paused", "resume": "not paused any more", "disable": "disabled", "enable": "enabled"}[kind]
    if not answer.is_done:
        return f"{watcher} is to be {state}; {answer.later}"
    skipped = "; what was held back is skipped" if skip else ""
    return f"{watcher} is {state}{skipped}"
