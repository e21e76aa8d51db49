"""Regular expressions and networks: literals that are looked at once, when a condition is compiled.

The expressions are RE2's: a search takes a time linear in the text, whatever the pattern is. Both are kept in caches of
a bounded size, so that whoever asks with a text pays for reading it once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

import re2
from msgspec import Struct

from bridge.language.values import Fail, Truth

Network: TypeAlias = IPv4Network | IPv6Network

_MEMORY: Final = 2 * 1024 * 1024  # bytes of a pattern; RE2 goes on more slowly where it would need more
_MOST_SEARCHED: Final = 1_000_000_000  # bytes times instructions of a pattern: seconds where RE2 is at its slowest
_LONGEST_ADDRESS: Final = 100
_CACHED: Final = 256


class Pattern(Struct, frozen=True, eq=False):
    """A regular expression of RE2, ready to be asked. Searching takes a time linear in the text."""

    finds: Callable[[bytes], object]
    size: int

    def search(self, text: str) -> bool | Fail:
        """Whether the pattern occurs in the text. A Fail where both are so long that to look could take seconds."""
        data = text.encode(errors="surrogatepass")
        if len(data) * self.size > _MOST_SEARCHED:
            most = _MOST_SEARCHED // self.size
            return Fail(f"a text of more than {most:,} bytes is too long for a pattern of this size")
        return self.finds(data) is not None


@lru_cache(_CACHED)
def pattern_of(pattern: str) -> Pattern:
    """Raises ValueError, in RE2's words, for what is no pattern, or one that takes more than 2 MiB."""
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern.encode(errors="surrogatepass"), options)
    except re2.error as error:
        words = error.args[0]
        raise ValueError(words.decode(errors="replace") if isinstance(words, bytes) else str(words)) from None
    return Pattern(compiled.search, max(1, compiled.programsize))


@lru_cache(_CACHED)
def network_of(text: str) -> Network:
    """`10.0.0.0/8`, or one address. Raises ValueError for anything else, and where the host's bits are not 0."""
    return ip_network(text)


def size_of_pattern(pattern: str) -> int:
    """Instructions of the compiled pattern; 1 for what is no pattern."""
    try:
        return pattern_of(pattern).size
    except ValueError:
        return 1


def matches(text: str, pattern: str) -> Truth:
    try:
        return pattern_of(pattern).search(text)
    except ValueError as error:
        return Fail(f"not a regular expression: {error}")


def is_within(text: str, network: str) -> Truth:
    try:
        within = network_of(network)
    except ValueError:
        return Fail("not a network in CIDR notation")
    try:
        address = ip_address(text if len(text) <= _LONGEST_ADDRESS else "")
    except ValueError:
        return Fail("the text is no IP address")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None and within.version == 4:
        address = address.ipv4_mapped
    return address in within
