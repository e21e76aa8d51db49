"""What a run is told: `params`, `tags` and `key` with typed `${expressions}`, compiled and rendered. Pure.

plans.py        what people write -> ParamPlan, TagPlan, KeyPlan (pieces.py cuts a text into literals and expressions)
template.py     JSON text with holes; reader.py fills plain paths from the bytes of an event, digits and all
payload.py      what a Python watcher yielded, as strict JSON
"""
