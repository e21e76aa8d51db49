"""The stream kind `directory`: a drop folder. Files in, events out, and each file ends up where people can see why.

    <path>/<name>                     dropped; left alone until it has settled
    <path>/.work/<identity>~<name>    claimed: the rename fixes the identity, a restart reads it back from the name
    <path>/.work/<identity>.pos       with `lines`: how far it was settled (a short cut, nothing depends on it)
    <path>/.work/.lock                held while somebody reads the folder; names its pid and host
    <path>/done/<identity>~<name>     settled (`on_done: delete` removes it instead)
    <path>/dead/<identity>~<name>     can't be read, or is refused by every watcher

The identity is device, inode, size and mtime in nanoseconds, in hex. Exactly `size` bytes are read, ever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bridge.ports import StreamKind
from connectors.directory.by_line import LineByLine
from connectors.directory.options import DirectoryOptions, check
from connectors.directory.people import sender, tail
from connectors.directory.whole import WholeFiles

if TYPE_CHECKING:
    from connectors.directory.producer import DirectoryProducer

__all__ = ["KIND", "DirectoryOptions", "LineByLine", "WholeFiles"]


def build(options: DirectoryOptions) -> DirectoryProducer:
    """A producer that has touched nothing yet."""
    return LineByLine(options) if options.lines else WholeFiles(options)


def source(options: DirectoryOptions) -> str:
    """The folder itself, wherever symbolic links or a working directory led to it."""
    return os.path.realpath(options.path)


KIND = StreamKind(options=DirectoryOptions, build=build, source=source, check=check, sender=sender, tail=tail)
