"""Looking at a vault's files without reading them. Symlinks are never followed; one bad entry never stops a scan."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import orjson

from wikid_daemon import files
from wikid_daemon.core import names
from wikid_daemon.core.manifest import Scan, Stamp
from wikid_daemon.core.page import Finding
from wikid_daemon.vault.vault import OutsideVault, Vault, inside

_PACKETS = (("sources", "SRC-"), ("trajectories", "TRJ-"))
_NOT_REGULAR = files.NotRegular.reason
_MANIFEST_LIMIT = 1 << 20


class RootUnavailable(Exception):
    """The folder of the pages is gone, unreadable or suddenly empty: keep what is known of it. ``reason`` is a word."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the folder of the pages is not available: {reason}")
        self.reason = reason


def scan(vault: Vault, *, known_pages: int | None = None, alive: Callable[[], None] = lambda: None) -> Scan:
    """Look at every file of the vault.

    An empty root is taken for an unmounted one, except when ``known_pages`` is 0. Ordinary files that are no Markdown
    are not listed among the skipped, a hidden folder is listed without what is in it, and a folder named like a page
    is listed and walked. ``alive`` is called at each entry. Raises RootUnavailable.
    """
    started = time.time_ns()
    root = _root_status(vault.pages_root)
    walk = _Walk(vault.pages_root, strict=vault.strict, alive=alive)
    walk.folder("")
    if not walk.seen_any and known_pages != 0:
        raise RootUnavailable("root_empty")
    again = _root_status(vault.pages_root)
    if (root.st_dev, root.st_ino) != (again.st_dev, again.st_ino):
        raise RootUnavailable("root_replaced")
    return walk.result(started, vault)


def scan_paths(vault: Vault, paths: Iterable[str], *, alive: Callable[[], None] = lambda: None) -> Scan:
    """Look only at these files and folders (with all below them), as a watcher reports them; "" is everything.

    Paths that do not exist are simply not among the entries. No collision is judged and no packet counted, since
    both need the whole vault. ``alive`` is called at each entry. Raises RootUnavailable, also when the root is empty
    now.
    """
    started = time.time_ns()
    _root_status(vault.pages_root)
    with os.scandir(vault.pages_root) as listing:
        if next(listing, None) is None:
            raise RootUnavailable("root_empty")
    walk = _Walk(vault.pages_root, strict=vault.strict, alive=alive)
    for path in sorted(set(paths)):
        walk.path(vault, path)
    return walk.result(started, None)


def folders_below(root: Path) -> list[str]:
    """The folders a scan would walk, relative, "" first. Raises RootUnavailable."""
    _root_status(root)
    walk = _Walk(root, strict=False, alive=lambda: None)
    walk.folder("")
    return walk.folders


def _root_status(root: Path) -> os.stat_result:
    try:
        status = os.stat(root)
        os.scandir(root).close()
    except OSError as error:
        reason = files.failure_reason(error)
        raise RootUnavailable("root_missing" if reason == "vanished" else reason) from error
    return status


class _Walk:
    """What one scan gathers."""

    def __init__(self, root: Path, *, strict: bool, alive: Callable[[], None]) -> None:
        self._root = os.fspath(root)
        self._strict = strict
        self._alive = alive
        self._entries: dict[str, Stamp] = {}
        self._skipped: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self.folders: list[str] = []
        self.seen_any = False

    def path(self, vault: Vault, relative: str) -> None:
        """Look at one reported path, whatever it has become."""
        self._alive()
        if relative == "":
            self.folder("")
            return
        try:
            path = inside(vault, relative)
            status = os.lstat(path)
        except OutsideVault:
            self._skipped[relative] = "symlink"
        except OSError as error:
            self._fail(relative, error)
        else:
            reason = names.skip_reason(relative, strict=self._strict)
            if stat.S_ISDIR(status.st_mode):
                if reason == "hidden":
                    self._skipped[relative] = reason
                else:
                    self.folder(relative)
            elif not stat.S_ISREG(status.st_mode):
                self._skip(relative, "symlink" if stat.S_ISLNK(status.st_mode) else reason or _NOT_REGULAR)
            elif reason is not None:
                self._skip(relative, reason)
            else:
                self._entries[relative] = files.stamp_of(status)

    def folder(self, start: str) -> None:
        """Walk a folder and all below it."""
        waiting = [start]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(f"{self._root}/{folder}" if folder else self._root) as listing:
                    self.folders.append(folder)
                    prefix = f"{folder}/" if folder else ""
                    waiting.extend(self._list(prefix, listing))
            except OSError as error:
                self._fail(folder, error)

    def _list(self, prefix: str, listing: "Iterator[os.DirEntry[str]]") -> list[str]:
        folders = []
        strict, entries, skip_reason, stamp_of = self._strict, self._entries, names.skip_reason, files.stamp_of
        for entry in listing:
            self._alive()
            self.seen_any = True
            relative = prefix + entry.name
            try:
                if entry.is_file(follow_symlinks=False):
                    reason = skip_reason(relative, strict=strict)
                    if reason is None:
                        entries[relative] = stamp_of(entry.stat(follow_symlinks=False))
                    else:
                        self._skip(relative, reason)
                elif entry.is_symlink():
                    self._skipped[relative] = "symlink"
                elif not entry.is_dir(follow_symlinks=False):
                    self._skip(relative, skip_reason(relative, strict=strict) or _NOT_REGULAR)
                elif entry.name.startswith("."):
                    self._skipped[relative] = "hidden"
                else:
                    folders.append(relative)
                    if relative.endswith(".md"):
                        self._skipped[relative] = _NOT_REGULAR
            except OSError as error:
                self._fail(relative, error)
        return folders

    def _skip(self, relative: str, reason: str) -> None:
        if reason != "not_markdown":
            self._skipped[relative] = reason

    def _fail(self, relative: str, error: OSError) -> None:
        reason = files.failure_reason(error)
        if reason != "vanished":
            self._failed[relative] = reason

    def result(self, started: int, whole: Vault | None) -> Scan:
        """The scan, in order; with a vault, as a complete look at it."""
        paths = sorted(self._entries, key=names.sort_key)
        lost = names.collisions(paths) if whole is not None and whole.strict else {}
        kept = {path: self._entries[path] for path in paths if path not in lost}
        return Scan(
            entries=kept,
            scanned_at_ns=started,
            skipped=_printable(self._skipped),
            failed=_printable(self._failed),
            findings=tuple(_collision(path, other) for path, other in lost.items()),
            folders=tuple(self.folders),
            packets_without_page=0
            if whole is None or whole.raw is None
            else _packets_without_page(whole.raw, kept, self._alive),
        )


def _printable(reasons: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((names.printable(path), reason) for path, reason in sorted(reasons.items()))


def _collision(path: str, kept: str) -> Finding:
    message = f"the same page id as {kept}, which keeps it"
    return Finding("error", "concept_identity_collision", path, message)


def _packets_without_page(raw: Path, pages: dict[str, Stamp], alive: Callable[[], None]) -> int:
    """Packets with a readable manifest that no page stands for (§11.12); a folder is normally named by its id."""
    count = 0
    for kind, prefix in _PACKETS:
        for folder in _packet_folders(raw / kind, prefix):
            alive()
            if f"{kind}/{folder.name}.md" not in pages:
                identity = _packet_id(folder)
                count += identity is not None and f"{kind}/{identity}.md" not in pages
    return count


def _packet_folders(parent: Path, prefix: str) -> list[Path]:
    try:
        with os.scandir(parent) as listing:
            return [Path(e.path) for e in listing if e.name.startswith(prefix) and e.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # no packets yet, or none that could be read: there is nothing to count


def _packet_id(folder: Path) -> str | None:
    try:
        manifest = orjson.loads(files.read_regular(folder / "manifest.json", _MANIFEST_LIMIT).data)
    except (OSError, files.NotReadable, orjson.JSONDecodeError):
        return None  # not a packet to the extension either
    identity = manifest.get("id") if isinstance(manifest, dict) else None
    return identity if isinstance(identity, str) else None
