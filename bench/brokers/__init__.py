"""Real brokers for tests, benchmarks and people.

An address, from the first source that can give one (`given`, `containers`, `local`), and processes that are started,
killed, frozen and cut off. fixtures.py says how tests use it, `python -m bench.brokers` is for people, and
testcontainers/ holds what is data: pinned images, the pom.xml, configurations.

It is a package here, and not below tests/, since benchmarks and `make brokers` need it without pytest, and since there
is no importable package below tests/.
"""
