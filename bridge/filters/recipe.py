"""What a trigger event of a Python watcher becomes: the params, tags and key of a run request."""

from __future__ import annotations

from msgspec import Struct

from bridge.core.window import Derived
from bridge.language.view import View
from bridge.params.plans import KeyPlan, ParamPlan, TagPlan


class Recipe(Struct, frozen=True, eq=False):
    """The plans of one watcher."""

    params: ParamPlan
    tags: TagPlan | None = None
    key: KeyPlan | None = None

    def derive(self, view: View, payload: object) -> Derived:
        """`payload` is what was yielded, `view` the event that the filter held. Raises ParamError."""
        text, tags, key = view.text, self.tags, self.key
        return Derived(
            self.params.render_trigger(text, view, payload),
            None if tags is None or tags.constant is not None else tags.render_trigger(text, view, payload),
            None if key is None else key.render_trigger(text, view, payload),
        )
