"""`decode` and `unwrap`: what is written for them, and what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.config.decoding import Senseless, decoding_of, written_decode
from bridge.config.effective import effective
from bridge.decode.options import AvroOptions, Decoding, ProtobufOptions, RegistryOptions

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'


def stream(good: str, *lines: str) -> str:
    return good.replace("kind: directory", "\n    ".join(["kind: directory", *lines]))


def decoding(load_text: Any, good: str, *lines: str, **options: Any) -> Decoding:
    found = load_text(stream(good, *lines), check=False, **options).streams["inbox"].decode
    assert isinstance(found, Decoding)
    return found


@pytest.mark.parametrize("name", ["json", "cloudevents", "text", "raw", "msgpack"])
def test_a_format_is_a_word(load_text, good, name):
    assert decoding(load_text, good, f"decode: {name}") == Decoding(name)


def test_json_may_be_strict(load_text, good):
    config = load_text(stream(good, "decode: {json: strict}")).streams["inbox"]
    assert config.is_strict
    assert config.decode == Decoding(strict=True)
    assert not load_text(good).streams["inbox"].is_strict


def test_layers_are_listed_from_the_outside_in(load_text, good):
    assert decoding(load_text, good, "decode: [base64, gzip, {json: strict}]") == Decoding(
        strict=True, wrappers=("base64", "gzip")
    )
    assert decoding(load_text, good, "decode: [text]") == Decoding("text")


def test_envelopes_are_listed_from_the_outside_in(load_text, good):
    assert decoding(load_text, good, "unwrap: sns", "decode: [base64, raw]") == Decoding(
        "raw", wrappers=("base64",), unwrap=("sns",)
    )
    assert decoding(load_text, good, "unwrap: [sns, s3]") == Decoding(unwrap=("sns", "s3"))
    assert decoding(load_text, good, "unwrap: []") == Decoding()


def test_files_are_looked_for_beside_the_configuration(load_text, good, tmp_path):
    found = decoding(load_text, good, "decode: {avro: {schemas: [a.avsc, /b.avsc]}}")
    assert found == Decoding("avro", avro=AvroOptions((f"{tmp_path}/a.avsc", "/b.avsc")))
    parts = {"a.yaml": stream(good, "decode: {protobuf: {descriptor_set: '${DIR}/o.pb', message: shop.Order}}")}
    found = load_text(parts, env={"DIR": "sets"}, check=False).streams["inbox"].decode
    assert found == Decoding("protobuf", protobuf=ProtobufOptions(f"{tmp_path}/conf/sets/o.pb", "shop.Order"))


def test_a_registry_has_an_address_and_a_way_to_sign_in(load_text, good):
    written = "decode: {avro: {registry: {url: http://localhost:8081, username: me, password: '${PW}', timeout: 3s}}}"
    registry = RegistryOptions("http://localhost:8081", "me", "hunter2", timeout=3.0)
    assert decoding(load_text, good, written, env={"PW": "hunter2"}) == Decoding("avro", avro=AvroOptions((), registry))


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        ("decode: avro", "streams.inbox.decode: avro needs to know what its messages look like",
         "write decode: {avro: {registry: {url: http://localhost:8081}}}, or {avro: {schemas: [order.avsc]}}"),
        ("decode: [gzip, protobuf]", "streams.inbox.decode: protobuf needs to know what its messages look like",
         "write decode: {protobuf: {descriptor_set: orders.pb, message: shop.Order}}"),
        ("decode: gzip", "streams.inbox.decode: gzip is around something, and what is in it is missing",
         "from the outside in, with the format last: decode: [base64, gzip, json]"),
        ("decode: [json, gzip]", "streams.inbox.decode: json stands before the end of the list",
         "from the outside in, with the format last: decode: [base64, gzip, json]"),
        ("decode: [{json: strict}, json]", "streams.inbox.decode: json stands before the end of the list", ...),
        ("decode: []", "streams.inbox.decode: an empty list", ...),
        ("decode: {}", "streams.inbox.decode: it takes one of json, avro and protobuf", None),
        ("decode: {cloudevents: {}}", "`cloudevents` is not a key of streams.inbox.decode",
         "the keys here are json, avro, protobuf"),
        ("decode: {avro: {}}",
         "streams.inbox.decode.avro: it takes `schemas`, a list of files, or `registry`, and not both", None),
        ("decode: {avro: {registry: {}}}", "`url` is missing in streams.inbox.decode.avro.registry",
         "like http://localhost:8081"),
        ("decode: {avro: {registry: {url: localhost}}}",
         "`url`: expected text like ^https?://[^/], saw text 'localhost'", ...),
        ("decode: {avro: {registry: {url: http://r, token: a, username: b}}}",
         "streams.inbox.decode.avro.registry: `token` and `username` are two ways to sign in: leave one out", None),
        ("decode: {avro: {registry: {url: http://r, password: a}}}",
         "streams.inbox.decode.avro.registry: `password` without `username`", None),
        ("decode: {protobuf: {message: a.B}}", "`descriptor_set` is missing in streams.inbox.decode.protobuf", ...),
        ("decode: text\n    unwrap: s3", "streams.inbox.unwrap: s3 goes with `decode: json` alone",
         "what is in an envelope of s3 is JSON: leave `decode` out, or write `decode: json`"),
        ("decode: [gzip, json]\n    unwrap: [sns, eventbridge]",
         "streams.inbox.unwrap: eventbridge goes with `decode: json` alone", ...),
        ("unwrap: sqs", "`unwrap`: expected sns, s3, eventbridge or a list, saw text 'sqs'", "did you mean `sns`?"),
        ("envelope: sns", "`envelope` is not a key of streams.inbox", "did you mean `unwrap`?"),
    ],
)  # fmt: skip
def test_what_means_nothing_says_what_does(problem_of, good, lines, message, hint):
    shown = problem_of(stream(good, lines)).splitlines()
    assert shown[0].split(": ", 1)[1] == message
    if hint is not ...:
        assert (shown[3].strip() if len(shown) > 3 else None) == hint


def test_what_it_means_can_be_written_again(load_text, good):
    for written in (
        "decode: text",
        "decode: {json: strict}",
        "decode: [base64, gzip, {json: strict}]",
        "decode: {avro: {schemas: [a.avsc]}}",
        "decode: [gzip, {avro: {registry: {url: http://r:1, username: a, timeout: 2s}}}]",
        "decode: {protobuf: {descriptor_set: a.pb, message: b.C}}",
        "unwrap: [sns, s3]",
        "unwrap: eventbridge",
    ):
        config = load_text(stream(good, written), check=False)
        shown = effective(config)
        again = load_text(json.dumps(shown), check=False)
        assert again.streams["inbox"].decode == config.streams["inbox"].decode
        assert effective(again) == shown


@pytest.mark.parametrize("layers", ["{}", "[gzip, {}]", "[{}]"])
def test_the_secrets_of_a_registry_are_shown_to_nobody(load_text, good, layers):
    registry = "{{avro: {{registry: {{url: 'http://me:XYZZY@r', {}}}}}}}"
    for keys, secret in (("token: XYZZY", "token"), ("username: a, password: '${PW}'", "password")):
        written = f"decode: {layers.replace('{}', registry.format(keys))}"
        config = load_text(stream(good, written), env={"PW": "XYZZY"}, check=False)
        assert "XYZZY" not in json.dumps(effective(config)) + repr(config.streams) + repr(
            config.streams["inbox"].decode
        )
        decode = effective(config)["streams"]["inbox"]["decode"]
        decode = decode[-1] if isinstance(decode, list) else decode
        assert decode["avro"]["registry"][secret].startswith("***")
        assert config.streams["inbox"].decode.avro.registry.url.startswith("http://me:XYZZY@")


def test_a_secret_that_is_wrong_is_not_quoted(problem_of, good):
    shown = problem_of(stream(good, "decode: {avro: {registry: {url: http://r, token: [XYZZY]}}}"))
    assert "XYZZY" not in shown


# What is checked where the configuration is to be used ---------------------------------------------------------------


def test_a_schema_that_is_missing_is_a_problem_of_the_key(problem_of, load_text, good):
    text = stream(good, "decode: {avro: {schemas: [nowhere.avsc]}}")
    shown = problem_of(text)
    assert shown.startswith("c.yaml:9:5: `decode.avro.schemas`")
    assert "nowhere.avsc" in shown
    assert load_text(text, check=False).streams["inbox"].decode.format == "avro"


def test_a_schema_that_makes_no_sense_is_a_problem_of_the_key(problem_of, good, tmp_path):
    Path(tmp_path / "a.avsc").write_text('{"type": "nonsense"}')
    assert problem_of(stream(good, "decode: {avro: {schemas: [a.avsc]}}")).startswith(
        "c.yaml:9:5: `decode.avro.schemas`"
    )


def test_a_schema_that_is_there_is_fine(load_text, good, tmp_path):
    Path(tmp_path / "a.avsc").write_text(SCHEMA)
    load_text(stream(good, "decode: [gzip, {avro: {schemas: [a.avsc]}}]"))
    load_text(stream(good, "decode: [base64, cloudevents]"))
    load_text(stream(good, "unwrap: [sns, s3]"))


def test_a_default_that_some_streams_do_not_fit_is_taken_whole_or_not_at_all(load_text, good):
    text = stream(good, "decode: {json: strict}") + "defaults: {streams: {decode: {avro: {schemas: [a.avsc]}}}}\n"
    assert load_text(text).streams["inbox"].decode == Decoding(strict=True)


def test_a_shared_decoder_that_can_not_be_made_is_one_problem(problem_of, good):
    text = good.replace("streams:\n", "streams:\n  two: {kind: directory, path: two}\n", 1)
    assert "nowhere.avsc" in problem_of(text + "defaults: {streams: {decode: {avro: {schemas: [nowhere.avsc]}}}}\n")


def test_plain_functions_say_the_same():
    assert decoding_of(["gzip", "json"], []) == Decoding(wrappers=("gzip",))
    assert isinstance(decoding_of("raw", "s3"), Senseless)
    assert written_decode(Decoding("raw", wrappers=("gzip",))) == ["gzip", "raw"]
