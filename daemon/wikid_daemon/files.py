"""Single files, safely: atomic writes, and reads that neither hang, nor follow links, nor tear."""

import contextlib
import errno
import hashlib
import os
import stat as modes
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wikid_daemon.core.manifest import Stamp as Stamp

_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (modes.S_ISLNK, "symlink"),
    (modes.S_ISDIR, "folder"),
    (modes.S_ISFIFO, "fifo"),
    (modes.S_ISSOCK, "socket"),
    (modes.S_ISCHR, "device"),
    (modes.S_ISBLK, "device"),
)
_REASONS = {
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.ENOENT: "vanished",
    errno.ENOTDIR: "vanished",
    errno.ENAMETOOLONG: "name_too_long",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EROFS: "read_only",
    errno.EIO: "input_output_error",
    errno.EAGAIN: "temporarily_unavailable",
    errno.EDEADLK: "temporarily_unavailable",
    errno.ETIMEDOUT: "temporarily_unavailable",
    errno.EBUSY: "temporarily_unavailable",
}
_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV))
_DATALESS = 0x40000000  # macOS st_flags: the content is in the cloud
_RECALLED = 0x00441000  # Windows FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS | _RECALL_ON_OPEN | _OFFLINE
_REPLACE_TRIES = 6 if sys.platform == "win32" else 1  # an open reader blocks a replace there


class NotReadable(Exception):
    """A file that will not be read; ``reason`` is a stable word."""

    reason = "not_readable"


class NotRegular(NotReadable):
    """A folder, symlink, FIFO, socket or device where a regular file was asked for."""

    reason = "not_a_regular_file"

    def __init__(self, kind: str) -> None:
        super().__init__(f"not a regular file: {kind}")
        self.kind = kind


class TooLarge(NotReadable):
    """More bytes than the limit."""

    reason = "document_limit_bytes"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes, the limit is {limit}")
        self.size = size
        self.limit = limit


class NotDownloaded(NotReadable):
    """A cloud placeholder; reading it could block for ever, or download the whole vault."""

    reason = "not_downloaded"


class Unstable(NotReadable):
    """The file changed during every attempt to read it."""

    reason = "temporarily_unavailable"


@dataclass(frozen=True, slots=True)
class FileBytes:
    """All bytes of a file. ``stamp`` is distrusted when a later change could go unseen (see `Stamp.is_racy`)."""

    data: bytes
    stamp: Stamp


def read_regular(path: Path, limit: int) -> FileBytes:
    """Read a regular file of at most ``limit`` bytes. Raises a `NotReadable` or the OSError of the system."""
    for _ in range(3):
        _refuse_unreadable(os.lstat(path), limit)
        try:
            descriptor = os.open(path, _READ_FLAGS)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # became a symlink, or a socket, since lstat
                raise NotRegular("symlink" if error.errno == errno.ELOOP else "socket") from error
            raise
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            before = os.fstat(descriptor)
            _refuse_unreadable(before, limit)
            data = _read_all(file.fileno(), limit)
            now = time.time_ns()
            stamp = stamp_of(os.fstat(descriptor))
        if stamp == stamp_of(before) and len(data) == stamp.size:
            return FileBytes(data, stamp.distrusted() if stamp.is_racy(now) else stamp)
    raise Unstable("the file keeps changing")


def read_log(path: Path, limit: int, offset: int = 0) -> bytes:
    """A regular file that others may append to meanwhile, from `offset` up to where it ended when it was opened.

    Raises a `NotReadable` or the OSError of the system.
    """
    _refuse_unreadable(os.lstat(path), limit)
    with os.fdopen(os.open(path, _READ_FLAGS), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        _refuse_unreadable(status, limit)
        parts: list[bytes] = []
        left = status.st_size - file.seek(offset)
        while left > 0 and (part := os.read(file.fileno(), min(1 << 20, left))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def _read_all(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(descriptor, min(1 << 20, limit + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise TooLarge(size, limit)
    return b"".join(parts)


def _refuse_unreadable(status: os.stat_result, limit: int) -> None:
    if not modes.S_ISREG(status.st_mode):
        raise NotRegular(kind_of(status.st_mode))
    if status.st_size > limit:
        raise TooLarge(status.st_size, limit)
    if getattr(status, "st_flags", 0) & _DATALESS or getattr(status, "st_file_attributes", 0) & _RECALLED:
        raise NotDownloaded("the content is not on this machine")


def kind_of(mode: int) -> str:
    """A word for the kind of a directory entry that is not a regular file."""
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "unknown")


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file; Windows gives scans and reads different inode numbers, so there is none."""
    inode = 0 if sys.platform == "win32" else status.st_ino
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode)


def failure_reason(error: OSError | NotReadable) -> str:
    """A stable word for a failure: never a path or text from a note."""
    if isinstance(error, NotReadable):
        return error.reason
    code = error.errno or 0
    return _REASONS.get(code) or errno.errorcode.get(code, "unknown_error").lower()


def content_hash(data: bytes) -> str:
    """SHA-256 in hex of a file's raw bytes."""
    return hashlib.sha256(data).hexdigest()


def atomic_write(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace ``path`` by ``data`` so that a reader sees the old bytes or the new, never a mixture.

    An existing file's permission bits are kept. ``durable`` survives a power cut: file and folder are synced.
    """
    with _written_beside(path, data, durable=durable) as temporary:
        move_over(temporary, path)
    if durable:
        sync_folder(path.parent)


def replace_if_unchanged(path: Path, expected: bytes, data: bytes) -> bool:
    """Like a durable `atomic_write`, but only while ``path`` still holds ``expected``; False when it does not."""
    with _written_beside(path, data, durable=True) as temporary:
        if path.read_bytes() != expected:
            return False
        move_over(temporary, path)
    sync_folder(path.parent)
    return True


def create(path: Path, data: bytes) -> None:
    """Make a new file that has all of ``data`` from the first moment it is seen, and lasts through a power cut.

    FileExistsError where anything is at ``path``, which is left alone.
    """
    with _written_beside(path, data, durable=True) as temporary:
        if sys.platform == "win32":
            os.rename(temporary, path)  # never replaces anything there
        else:
            _place(temporary, path)
    sync_folder(path.parent)


def _place(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # a filesystem without hard links: the name is taken first, and empty for a moment
        os.close(os.open(path, _WRITE_FLAGS, 0o666))
        os.replace(temporary, path)


@contextlib.contextmanager
def _written_beside(path: Path, data: bytes, *, durable: bool) -> Iterator[Path]:
    # a name may have 255 bytes, and these are 45
    stem = path.name.encode("utf-8", "surrogateescape")[:200].decode("utf-8", "ignore")
    temporary = path.with_name(f"{stem}.tmp-{os.getpid()}-{uuid.uuid4().hex}")
    try:
        descriptor = os.open(temporary, _WRITE_FLAGS, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, modes.S_IMODE(os.stat(path).st_mode))
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def move_over(temporary: Path, path: Path) -> None:
    """Put a finished file in the place of another, waiting a little where a reader has that open (Windows)."""
    for attempt in range(1, _REPLACE_TRIES + 1):
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            if attempt == _REPLACE_TRIES:
                raise
            time.sleep(0.01 * 2**attempt)


def sync_folder(folder: Path) -> None:
    """Make renames in the folder last through a power cut."""
    if sys.platform != "win32":  # which has no descriptors of folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
