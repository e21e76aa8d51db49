"""`headrace show`: what is configured, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bridge.cli.opening import config_of
from bridge.cli.options import Output, Paths
from bridge.cli.output import say, say_json, show_parts, wants_json, width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.tables import Column
    from bridge.config.model import Config

Effective = Annotated[
    bool, typer.Option("--effective", help="Every key with its value, defaults included, as YAML or JSON.")
]


def show(paths: Paths = None, effective: Effective = False, output: Output = None) -> None:
    """Show what is configured, and what it promises.

    Streams, watchers and targets, or with --effective every key with its value. Secrets stay masked.

    \b
    Examples:
      headrace show
      headrace show conf/ --effective --output table
    """
    from bridge.config.effective import effective as effective_of

    config = config_of(paths, check=False)
    everything = effective_of(config)
    if effective:
        say_json(everything) if wants_json(output) else say(_yaml(everything))
        return
    report = _report(config, everything)
    if wants_json(output):
        say_json(report)
        return
    parts: list[RenderableType] = []
    for part, columns in _columns().items():
        if report[part]:
            parts += ["", _table(report[part], columns)]
    show_parts(*parts[1:] or ["nothing is configured"])


def _yaml(everything: Mapping[str, Any]) -> str:
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Plain(RoundTripRepresenter):
        """`null` is written out: an empty value looks like a slip."""

    Plain.add_representer(type(None), lambda plain, _: plain.represent_scalar("tag:yaml.org,2002:null", "null"))
    yaml = YAML()
    yaml.Representer = Plain
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = StringIO()
    yaml.dump(dict(everything), out)
    return out.getvalue().rstrip("\n")


def _report(config: Config, everything: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    from bridge.cli.promises import promises_of, source_or_reason
    from bridge.config.secrecy import without_url_passwords

    promises = promises_of(config)
    return {
        "streams": [
            {
                "name": name,
                "kind": stream.kind,
                "source": without_url_passwords(source_or_reason(stream)),
                "guarantee": promises[f"streams.{name}"].guarantee,
                "notes": list(promises[f"streams.{name}"].notes),
            }
            for name, stream in config.streams.items()
        ],
        "watchers": [
            _watcher(asset, watcher) for asset, below in everything["assets"].items() for watcher in below["watchers"]
        ],
        "targets": [
            {"name": name, "kind": target.kind, "guarantee": promises[f"targets.{name}"].guarantee}
            for name, target in config.targets.items()
        ],
    }


def _watcher(asset: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """From what `--effective` shows, where secrets are masked already."""
    filtering = {key: shown[key] for key in ("match", "when", "reject", "trigger") if key in shown}
    run = shown["run"]
    return {
        "id": shown["id"],
        "asset": asset,
        "stream": shown["stream"],
        **filtering,
        "target": run["target"],
        "job": run["job"],
        "enabled": shown["enabled"],
    }


# For people ----------------------------------------------------------------------------------------------------------

_ANY: Final = "every event"


def _filter(watcher: Mapping[str, Any]) -> str:
    if "trigger" in watcher:
        return str(watcher["trigger"])
    conditions = [_condition(watcher[key]) for key in ("match", "when") if key in watcher]
    rejects = f"; rejects {_condition(watcher['reject'])}" if "reject" in watcher else ""
    return (" and ".join(conditions) or _ANY) + rejects


def _condition(written: object) -> str:
    """An expression as it is, in one line; a block as JSON."""
    import json

    return " ".join(written.split()) if isinstance(written, str) else json.dumps(written, ensure_ascii=False)


def _columns() -> dict[str, list[Column[Mapping[str, Any]]]]:
    from bridge.cli.tables import Column

    def plain(key: str) -> Any:
        return lambda row: str(row[key])

    return {
        "streams": [
            Column("stream", plain("name")),
            Column("kind", plain("kind"), 1),
            Column("source", plain("source"), shape="whole"),
            Column("guarantee", plain("guarantee")),
            Column("notes", lambda row: "; ".join(row["notes"]), 2, "folded"),
        ],
        "watchers": [
            Column("watcher", lambda row: row["id"] + ("" if row["enabled"] else " (disabled)")),
            Column("asset", plain("asset"), 3),
            Column("stream", plain("stream"), 1),
            Column("takes", _filter, 1, "folded"),
            Column("target", plain("target"), 1),
            Column("job", plain("job"), 2),
        ],
        "targets": [
            Column("target", plain("name")),
            Column("kind", plain("kind")),
            Column("guarantee", plain("guarantee")),
        ],
    }


def _table(rows: Sequence[Mapping[str, Any]], columns: list[Column[Mapping[str, Any]]]) -> RenderableType:
    from bridge.cli.tables import listing

    return listing(rows, columns, width())
