"""Runs one command at most once, and leaves a record of how it ended. One file, standard library only.

    python -I -S launcher.py <record> <timeout> <grace> <folder> <command> [<argument> ...]

`record` is the path that the state files are named after, `timeout` and `grace` are seconds, `folder` is where the
command runs ("" for here). What the launcher gets as standard input and environment is what the command gets.

    <record>.started   linked from a locked file before the command starts. Whoever comes second leaves (TAKEN).
                       The launcher and the command both hold the lock: it is free only when both are gone.
    <record>.exit      how it ended, by atomic rename, while the lock is still held

So a look at the files tells what became of a run: `.exit`: it ended like that; no `.started`: it never ran; the lock
is held: it runs; else it was interrupted. Both survive the end of every process. The link is on disk (fsync of its
folder) before the command starts, so a power cut can't make a run start twice; `.exit` is not synced: after a power
cut a run may count as interrupted although it ended.

The launcher ends the command at its timeout: SIGTERM to its process group, after `grace` SIGKILL. It is its own
session and ignores the polite signals, so that a command that ends on one leaves a record. Of the output it keeps
the first and the last 64 KiB and goes on reading, so that no command blocks, dies of SIGPIPE or fills a disk.

It starts for every run, so every import here is paid for every run; `__future__` and `typing` are left out too.
"""

import errno
import os
import sys
import time
from fcntl import LOCK_EX, flock
from select import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # what `signal` wraps in enums, which alone would cost 4 ms of a start of 10

RECORDED = 0
"""The command ended, or can never start: `.exit` says which."""
TAKEN = 3
"""Another launcher was first. Nothing was done."""
UNABLE = 4
"""No process, no memory, no space just now: the command did not start, and no trace is left. Why is on stdout."""
UNRECORDED = 5
"""It ended, but `.exit` can't be written (a full disk): what it would have said, without the output, is on stdout."""

KEPT = 64 * 1024
"""Bytes of output kept, of either end."""

PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EIO, errno.ENOSPC)
MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
UNSYNCED = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)  # file systems that don't know the fsync of a folder
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR)

POLITE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
INHERITED = (*POLITE, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


class Output:
    """The first and the last KEPT bytes of what a command prints; what lies between is only counted."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        room = KEPT - len(self.head)
        if room > 0:
            self.head += chunk[:room]
            chunk = chunk[room:]
        self.tail += chunk
        if len(self.tail) > 8 * KEPT:
            self.trim()

    def trim(self) -> None:
        excess = len(self.tail) - KEPT
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess


def take(record: str) -> int | None:
    """Locks a file of our own, then links it to its name: who sees the name finds the lock held. -> its descriptor."""
    started, own = f"{record}.started", f"{record}.{os.getpid()}.{time.time_ns()}.tmp"
    lock = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        flock(lock, LOCK_EX)
        os.write(lock, b"%d %f\n" % (os.getpid(), time.time()))
        os.link(own, started)
    except FileExistsError:
        return None
    finally:
        os.unlink(own)
    os.set_inheritable(lock, True)
    return lock


def sync(folder: str) -> None:
    """After it a power cut can't take the link away: what the command did would be done again."""
    fd = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise
    finally:
        os.close(fd)


def start(command: list[str], output: int) -> int:
    """The command in a process group of its own, with every signal as a fresh process expects it. -> its pid."""
    return os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
        setpgroup=0,
        setsigmask=(),
        setsigdef=INHERITED,
    )


def attend(pid: int, source: int, woken: int, output: Output, timeout: float, grace: float) -> tuple[int, str]:
    """Reads what the command prints until it ends, and ends it at its timeout. -> (wait status, reason)"""
    due, steps, reason = time.monotonic() + timeout, [signal.SIGTERM, signal.SIGKILL], ""
    sources = [source, woken]
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status, reason
        left = due - time.monotonic()
        if left <= 0 and steps:
            end(pid, steps.pop(0))
            due, left, reason = time.monotonic() + grace, grace, "timeout"
        ready, _, _ = select(sources, [], [], min(max(left, 0.0), 60.0) if steps else 60.0)
        if woken in ready:
            os.read(woken, 4096)
        if source in ready:
            chunk = os.read(source, KEPT)
            output.add(chunk)
            if not chunk:
                sources.remove(source)


def end(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return  # gone, or of another user by now: nothing that we may do


def drain(source: int, output: Output) -> None:
    """What was printed before the end and not yet read. Children that live on may print for ever: so much, no more."""
    os.set_blocking(source, False)
    try:
        for _ in range(64):
            chunk = os.read(source, KEPT)
            if not chunk:
                return
            output.add(chunk)
    except BlockingIOError:
        return


def run(command: list[str], output: Output, timeout: float, grace: float) -> tuple[int, int, str]:
    """-> (pid, exit code or minus the signal, reason)"""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    source, sink = os.pipe()
    pid = start(command, sink)
    os.close(sink)
    status, reason = attend(pid, source, woken, output, timeout, grace)
    if reason:
        end(pid, signal.SIGKILL)  # those of its group that outlived it
    drain(source, output)
    output.trim()
    return pid, os.waitstatus_to_exitcode(status), reason


def refusal(error: OSError, what: str) -> str:
    if error.errno in MISSING:
        return f"not found: {what}"
    if error.errno in FORBIDDEN:
        return f"not executable: {what}"
    return f"not started: {what}: {error.strerror}"


def leave(record: str, head: str, output: Output) -> int:
    """Writes `.exit`: a few `name value` lines, an empty one, the output. -> the launcher's own exit code"""
    kept = bytes(output.head + output.tail)
    text = f"{head}dropped {output.dropped}\nsize {len(kept)}\n\n"
    try:
        with open(f"{record}.exit.tmp", "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape") + kept)
        os.rename(f"{record}.exit.tmp", f"{record}.exit")
    except OSError:
        say(f"{head}dropped {output.dropped + len(kept)}\nsize 0\n")
        return UNRECORDED
    return RECORDED


def say(text: str) -> None:
    """To the bridge, which may be gone."""
    try:
        os.write(1, text.encode("utf-8", "surrogateescape"))
    except OSError:
        return


def attempt(record: str, folder: str, command: list[str], timeout: float, grace: float) -> int:
    """The lock is ours: starts the command and stays until its record is written. -> the launcher's own exit code"""
    output, began = Output(), time.time()
    pid, code, what = 0, 127, folder
    try:
        sync(os.path.dirname(record))
        if folder:
            os.chdir(folder)
        what = command[0]
        pid, code, reason = run(command, output, timeout, grace)
    except OSError as error:
        if error.errno in PASSING:
            os.unlink(f"{record}.started")
            say(f"{what}: {error.strerror}")
            return UNABLE
        reason = refusal(error, what)
    reason = " ".join(reason.split())
    head = f"pid {pid}\ncode {code}\nreason {reason}\nstarted {began:.3f}\nended {time.time():.3f}\n"
    return leave(record, head, output)


def main(record: str, timeout: str, grace: str, folder: str, *command: str) -> int:
    os.closerange(3, 4096)  # whatever a library of the bridge let slip: its sockets must not outlive it in a command
    for number in POLITE:
        signal.signal(number, signal.SIG_IGN)
    try:
        lock = take(record)
    except OSError as error:
        say(f"{record}: {error.strerror}")
        return UNABLE
    if lock is None:
        return TAKEN
    return attempt(record, folder, list(command), float(timeout), float(grace))


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
