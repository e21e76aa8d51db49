"""What a configuration comes to, with every default."""

from __future__ import annotations

from bridge.config.effective import effective


def test_every_key_is_there_with_its_default_and_its_unit(load_text, good):
    assert effective(load_text(good)) == {
        "store": {
            "url": "sqlite:///headrace.db",
            "max_size": None,
            "retention": {"finished": "30d", "dead_letters": "30d", "open": "90d", "instances": "7d"},
            "dedupe_horizon": "32d",
        },
        "instance": {"heartbeat": "5s", "stop_timeout": "30s"},
        "targets": {
            "shell": {
                "kind": "command",
                "command": ["./run.sh"],
                "env": {},
                "timeout": "1h",
                "api_token": "",
                "retry": {"delay": "1s", "factor": 2.0, "max": "5m", "jitter": 0.2, "attempts": 10},
                "max_in_flight": 8,
            }
        },
        "streams": {
            "inbox": {
                "kind": "directory",
                "path": "inbox",
                "settle": "1s",
                "max_file": "64MiB",
                "lines": False,
                "on_done": "move",
                "patterns": [],
                "only": [],
                "login": None,
                "weight": None,
                "decode": "json",
                "max_body": "1MiB",
                "generation": 1,
                "max_attempts": 5,
                "retry": {"delay": "1s", "factor": 2.0, "max": "5m", "jitter": 0.2, "mode": "process"},
                "ack_timeout": "5m",
                "cohort_grace_period": "0ms",
                "max_outstanding": 10_000,
                "max_outstanding_bytes": "64MiB",
                "max_retrying": 1000,
                "max_advancing": 8,
            }
        },
        "assets": {
            "eu_orders": {
                "watchers": [
                    {
                        "name": "eu_orders",
                        "id": "eu_orders",
                        "stream": "inbox",
                        "match": {"region": ["eu", "uk"]},
                        "enabled": True,
                        "max_attempts": None,
                        "run": {
                            "target": "shell",
                            "job": "process",
                            "params": {"order": "${event.order_id}"},
                            "tags": {},
                        },
                    }
                ]
            }
        },
    }


def test_it_can_be_written_out_and_read_again(load_text, good):
    """JSON is YAML: what is shown means what was loaded."""
    import json

    shown = effective(load_text(good.replace("    watchers:", "    description: all of Europe\n    watchers:")))
    assert shown["assets"]["eu_orders"]["description"] == "all of Europe"
    again = load_text(json.dumps(shown, ensure_ascii=False))
    assert effective(again) == shown
    assert again.watchers[0].definition == load_text(good).watchers[0].definition


def test_a_set_is_sorted_and_hidden_as_a_whole(load_text, good):
    def only(written: str) -> object:
        config = load_text(good.replace("path: inbox", f"path: inbox\n    only: {written}"), env={"X": "x"})
        return effective(config)["streams"]["inbox"]["only"]

    assert only("[b, a]") == ["a", "b"]
    assert only('[b, a, "${X}"]') == ["***", "***", "***"]


def test_a_python_watcher_shows_its_trigger(load_text, good):
    text = good.replace("match: {region: [eu, uk]}", "trigger: my.Filter")
    watcher = effective(load_text(text))["assets"]["eu_orders"]["watchers"][0]
    assert (watcher["trigger"], watcher["kwargs"]) == ("my.Filter", {})
    assert "match" not in watcher
