"""`headrace version`."""

from __future__ import annotations

from bridge.cli.options import Output
from bridge.cli.output import say, say_json, wants_json


def version(output: Output = None) -> None:
    """Show the versions of headrace, Python and SQLite.

    \b
    Example:
      headrace version --output json
    """
    import platform
    import sqlite3
    from importlib.metadata import version as version_of

    versions = {
        "version": version_of("headrace"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    if wants_json(output):
        say_json(versions)
    else:
        say("headrace {version} (Python {python}, SQLite {sqlite})".format(**versions))
