"""What kind of place a folder is on: a network file system, or a folder that some tool keeps in sync (§11.37)."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

_NETWORK = re.compile(
    r"9p|afs|afpfs|ceph|cifs|coda|davfs|drvfs|glusterfs|lustre|macfuse|ncpfs|nfs|nfs4|osxfuse|prl_fs|smb3|smbfs|vboxsf"
    r"|virtiofs|webdav|fuse\.(glusterfs|rclone|s3fs|sshfs|vmhgfs-fuse)"
)
_OCTAL = re.compile(r"\\([0-7]{3})")
_MAC_MOUNT = re.compile(r"^.+? on (/.*) \(([^,)]+)", re.MULTILINE)
_DRIVE_REMOTE = 4

_SYNC_FOLDER = re.compile(
    r"dropbox( \(.+\))?|onedrive( - .+)?|google ?drive|my drive|nextcloud|owncloud|pclouddrive|icloud ?drive"
    r"|mobile documents|cloudstorage|syncthing|seafile|megasync",
    re.IGNORECASE,
)
_SYNC_MARKERS = (".stfolder", ".dropbox.cache", ".owncloudsync.log", ".sync/ID")


def network_filesystem(path: Path) -> str | None:
    """The type of the network file system that holds ``path``, or None when it is local or not known."""
    if sys.platform == "win32":
        drive = os.path.splitdrive(path)[0]
        remote = drive.startswith("\\\\") or ctypes.windll.kernel32.GetDriveTypeW(f"{drive}\\") == _DRIVE_REMOTE
        return "network drive" if remote else None
    else:  # noqa: RET505 - for a type checker of either platform
        kind = filesystem_of(path, _mounts())
        return kind if kind is not None and _NETWORK.fullmatch(kind) else None


def filesystem_of(path: Path, mounts: list[tuple[str, str]]) -> str | None:
    """The type of the deepest mount (point, type) above ``path``; the last mounted wins a tie."""
    text = os.fspath(path)
    best: tuple[str, str] | None = None
    for point, kind in mounts:
        above = text == point or text.startswith(point.rstrip("/") + "/")
        if above and (best is None or len(point) >= len(best[0])):
            best = point, kind
    return best[1] if best else None


def _mounts() -> list[tuple[str, str]]:
    try:
        if sys.platform == "darwin":
            listing = subprocess.run(["/sbin/mount"], capture_output=True, timeout=5, check=True).stdout
            return _MAC_MOUNT.findall(os.fsdecode(listing))
        else:  # noqa: RET505 - as above
            return parse_mountinfo(Path("/proc/self/mountinfo").read_bytes())
    except (OSError, subprocess.SubprocessError):
        return []  # without a list of mounts every file system counts as local


def parse_mountinfo(listing: bytes) -> list[tuple[str, str]]:
    """(mount point, type) of each line of Linux' `/proc/self/mountinfo`."""
    mounts = []
    for line in os.fsdecode(listing).splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ", 1)[0]
        if len(fields) > 4:
            mounts.append((_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]), kind))
    return mounts


def sync_folder(path: Path) -> Path | None:
    """The folder above ``path`` (or itself) that a sync tool keeps, told by its name or by the tool's marker."""
    for folder in (path, *path.parents):
        if _SYNC_FOLDER.fullmatch(folder.name) or any(os.path.lexists(folder / marker) for marker in _SYNC_MARKERS):
            return folder
    return None
