"""What takes a process of its own to show: packages that are not there, and bodies that want all the memory."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("package", "decoding", "extra"),
    [
        ("fastavro", 'Decoding("avro", avro=AvroOptions(("a",)))', "avro"),
        ("google.protobuf", 'Decoding("protobuf", protobuf=ProtobufOptions("a", "b"))', "protobuf"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_what_to_do(package: str, decoding: str, extra: str) -> None:
    out = run(f"""
import sys
sys.modules[{package!r}] = None
from bridge.core.errors import Refused
from bridge.decode.decoder import decoder_of
from bridge.decode.options import *
try:
    decoder_of({decoding}, max_body=1, read=lambda path: b"")
except Refused as error:
    print(error)
""")
    assert f"`decode: {extra}` needs a package that is not there" in out
    assert f"pip install headrace[{extra}]" in out


def test_json_and_its_wrappers_load_no_optional_package() -> None:
    out = run("""
import sys
from bridge.decode.decoder import decoder_of
from bridge.decode.options import Decoding
decoder_of(Decoding(wrappers=("gzip",)), max_body=1, read=lambda path: b"")
print([name for name in ("fastavro", "google.protobuf", "aiohttp") if name in sys.modules])
""")
    assert out.strip() == "[]"


def test_hostile_lengths_and_depths_take_neither_memory_nor_the_process() -> None:
    """600 MiB of address space, and bodies that claim far more, or nest without end."""
    out = run("""
import json, resource
from bridge.decode.decoder import decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import *
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

tree = {"type": "record", "name": "T", "fields": [{"name": "t", "type": ["null", "T"]}]}
file = FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
message = file.message_type.add(name="T")
message.field.add(name="t", number=1, type=11, type_name=".t.T", label=3)
for n in range(2, 60):
    message.field.add(name=f"a_field_with_a_long_name_{n}", number=n, type=3, label=1)
descriptors = FileDescriptorSet(file=[file]).SerializeToString()

def decoder(decoding):
    return decoder_of(decoding, max_body=1 << 20, read=lambda path: descriptors)

avro = decoder(Decoding("avro", avro=AvroOptions(registry=RegistryOptions("http://localhost"))))
schemas = ["string", "bytes", {"type": "array", "items": "null"}, {"type": "array", "items": "long"},
           {"type": "map", "values": "null"}, tree, {"type": "array", "items": {"type": "array", "items": "null"}}]
for n, schema in enumerate(schemas):
    avro.learn(n, json.dumps(schema))
msgpack = decoder(Decoding("msgpack"))
protobuf = decoder(Decoding("protobuf", protobuf=ProtobufOptions("f", "t.T")))
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))

huge = [b"\\x80" * 6 + b"\\x01", b"\\xff" * 9 + b"\\x01", b"\\xfe" + b"\\xff" * 8 + b"\\x01",
        b"\\x80" * 5 + b"\\x40" + bytes(20)]
bodies = [(avro, bytes((0, 0, 0, 0, n)) + claim) for n in range(len(schemas)) for claim in huge]
bodies += [(avro, bytes((0, 0, 0, 0, n)) + b"\\x02" * 1_000_000) for n in range(len(schemas))]
claims = [kind + b"\\xff" * 4 for kind in (b"\\xdd", b"\\xdf", b"\\xc6", b"\\xdb")]
bodies += [(msgpack, claim * times) for claim in claims for times in (1, 200, 100_000)]
bodies += [(msgpack, b"\\xdd\\x00\\x0f\\xff\\x00" * 200_000), (msgpack, b"\\x91" * 1_000_000)]
bodies += [(protobuf, b"\\x0a\\x00" * 500_000), (protobuf, b"\\x0a\\xff\\xff\\xff\\x7f")]
bodies += [(protobuf, b"\\x0b" * 1_000_000)]
for which, body in bodies:
    try:
        which.events(body)
        raise SystemExit(f"read: {body[:20]}")
    except DecodeFault as error:
        assert "the decoder failed" not in error.fault.error, error.fault.error
        print(error.fault.reason)
print("alive")
""")
    assert out.endswith("alive\n")
    assert set(out.split()) <= {"malformed", "too_deep", "too_big", "number", "encoding", "alive"}


def test_a_gzip_bomb_takes_less_than_twice_max_body() -> None:
    """The peak of memory grows by what may be unpacked, and not by what could be."""
    out = run("""
import gzip, resource, sys
from bridge.decode.json import DecodeFault
from bridge.decode.wrappers import gunzip
bomb = gzip.compress(bytes(1 << 28))
full = gzip.compress(bytes(32 << 20))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before = peak()
try:
    gunzip(bomb, 32 << 20)
except DecodeFault as error:
    print(error.fault.reason, (peak() - before) / (32 << 20))
text = gunzip(full, 32 << 20)
print(len(text), (peak() - before) / (32 << 20))
""")
    first, second = out.splitlines()
    assert first.split()[0] == "too_big"
    assert second.split()[0] == str(32 << 20)
    assert float(first.split()[1]) < 2
    assert float(second.split()[1]) < 2
