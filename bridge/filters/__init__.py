"""Which watchers take an event, and what comes of it: many conditions asked at the cost of one. Pure.

router.py       all watchers of a group as one `bridge.ports.Router`: one call per poll; read this first
events.py       a poll as events, whatever the format of its messages
projection.py   decodes only the fields in use
index.py        one look-up per shape (keys.py, shapes.py, buckets.py), for watchers that come and go
compiled.py     a condition as a Python function (writer.py, phrases.py)
records.py      run requests and rejects; watch.py, recipe.py: what a watcher of either kind makes them of
"""
