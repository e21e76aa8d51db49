"""What watchers declare: which events match, and what params a match sends. Pure.

match.py, params.py   what people write -> `ir.AllOf` and `ParamPlan`, with every problem at once
router.py             all watchers of a group as one `bridge.ports.Router`: one call per poll
projection.py, index.py   what makes that call cheap: decode only the fields in use, one look-up per shape
"""
