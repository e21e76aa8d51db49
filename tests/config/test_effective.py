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
                "unwrap": [],
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
                "overflow": "pause",
                "subscriber_queue_size": None,
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
                        "on_error": "no_match",
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


def again(load_text, text: str, **options):
    """What is shown means what was loaded: it is shown the same, and the watchers are the same."""
    import json

    config = load_text(text, **options)
    shown = effective(config)
    read = load_text(json.dumps(shown, ensure_ascii=False), check=False)
    assert effective(read) == shown
    assert [w.definition for w in read.watchers] == [w.definition for w in config.watchers]
    return shown


def test_conditions_and_keys_are_shown_as_they_are_written(load_text, good):
    text = good.replace(
        "match: {region: [eu, uk]}",
        "match: {region: [eu, uk]}\n        when: event.amount > 100\n"
        "        reject: {test: true}\n        on_error: reject",
    ).replace("job: process", 'job: process\n          key: "${event.order_id}"\n          key_ttl: 90m')
    (watcher,) = again(load_text, text)["assets"]["eu_orders"]["watchers"]
    assert (watcher["when"], watcher["reject"], watcher["on_error"]) == ("event.amount > 100", {"test": True}, "reject")
    assert (watcher["run"]["key"], watcher["run"]["key_ttl"]) == ("${event.order_id}", "90m")


def test_what_was_written_for_each_is_shown_one_by_one(load_text, good):
    text = good.replace(
        "- stream: inbox\n        match: {region: [eu, uk]}",
        "- stream: inbox\n        for_each: [{region: eu, least: 5, unused: 1}, {region: us, least: 7, unused: 2}]\n"
        "        name: ${each.region}\n        match: {region: '${each.region}'}\n"
        "        when: event.amount > each.least",
    )
    eu, us = again(load_text, text)["assets"]["eu_orders"]["watchers"]
    assert (eu["name"], eu["match"], eu["for_each"]) == ("eu", {"region": "eu"}, [{"least": 5}])
    assert (us["name"], us["match"], us["for_each"]) == ("us", {"region": "us"}, [{"least": 7}])


def test_defaults_are_shown_where_they_end_up(load_text, good):
    text = good + "defaults:\n  streams: {max_attempts: 9}\n  targets: {retry: {attempts: 3}}\n"
    shown = again(load_text, text)
    assert shown["streams"]["inbox"]["max_attempts"] == 9
    assert shown["targets"]["shell"]["retry"]["attempts"] == 3
    assert "defaults" not in shown
