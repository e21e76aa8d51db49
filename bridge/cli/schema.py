"""`headrace schema`: what an editor needs to know of a configuration."""

from __future__ import annotations


def schema() -> None:
    """Print a JSON Schema of a configuration, for editors.

    They then complete keys, explain them, and mark what is wrong while it is written. `headrace validate` knows more.

    \b
    Examples:
      headrace schema > headrace.schema.json
      # then, as the first line of a configuration:
      # yaml-language-server: $schema=headrace.schema.json
    """
    from bridge.cli.output import say_json
    from bridge.config.json_schema import json_schema
    from bridge.wiring import KINDS

    say_json(json_schema(KINDS))
