"""How far each file was settled, so that a restart needs not read it from its start. A short cut only.

`.work/<identity>.pos` holds the offset of the last line that was settled. Whatever is missing, torn or old costs lines
that are read again, and their run keys suppress them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from connectors.directory.claim import Claim, claim_of, is_identity

log = structlog.get_logger("headrace.directory")

_SUFFIX: Final = ".pos"
_NEW: Final = ".pos.new"


class Positions:
    """See the head of the file. No method raises for a position that can't be kept or read."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._has_failed = False

    def sweep(self, names: Iterable[str]) -> list[str]:
        """Removes positions that belong to no claim. Returns the names that are none of ours."""
        names = list(names)
        identities = {claim.identity for claim in map(claim_of, names) if claim is not None}
        others: list[str] = []
        for name in names:
            identity, dot, suffix = name.partition(".")
            if dot + suffix not in (_SUFFIX, _NEW) or not is_identity(identity):
                if name != ".lock":
                    others.append(name)
            elif dot + suffix == _NEW or identity not in identities:
                with suppress(OSError):
                    os.unlink(os.path.join(self._work, name))
        return others

    def read(self, claim: Claim) -> int | None:
        """The offset of the last settled line; None if the file is to be read from its start."""
        try:
            with open(self._path(claim.identity), "rb") as file:
                text = file.read(32)
        except OSError:
            return None
        if text[-1:] == b"\n" and text[:-1].isdigit() and (offset := int(text)) < claim.size:
            return offset
        log.warning("position is not one, the file is read again", file=claim.file.partition("~")[0], saw=repr(text))
        return None

    def write(self, positions: Mapping[str, int]) -> None:
        """By identity. A crash leaves the old one or the new one."""
        for identity, offset in positions.items():
            path = self._path(identity)
            new = path.removesuffix(_SUFFIX) + _NEW
            try:
                with open(new, "wb") as file:
                    file.write(b"%d\n" % offset)
                os.rename(new, path)
            except OSError as error:
                if not self._has_failed:
                    log.warning("positions can't be kept, a restart reads files again", error=error.strerror)
                self._has_failed = True
                return
        self._has_failed = False

    def forget(self, identity: str) -> None:
        """The file has left."""
        with suppress(OSError):
            os.unlink(self._path(identity))

    def _path(self, identity: str) -> str:
        return os.path.join(self._work, identity + _SUFFIX)
