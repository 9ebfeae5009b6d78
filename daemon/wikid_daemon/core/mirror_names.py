"""File names for mirror copies: any page id becomes one relative path that every file system takes."""

import hashlib
import re
import unicodedata

_MAX_SEGMENT_BYTES = 180
_MAX_PATH_BYTES = 600
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE | re.DOTALL)
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"\\|?*%]|^\.|[. ]$|^ ')


def mirror_name(page_id: str) -> str:
    """The path of a page's copy below its role's folder: the id and ``.md``, wherever that is safe.

    Characters that some system refuses are percent-encoded in UTF-8 (so is ``%``, which keeps names distinct), and an
    id too long for a path ends in its own hash.
    """
    *folders, name = page_id.split("/")
    path = "/".join([*(_segment(folder, is_folder=True) for folder in folders), _segment(name, is_folder=False)])
    if len(path.encode()) > _MAX_PATH_BYTES:
        return f"long%/{_digest(page_id)}.md"
    return f"{path}.md"


def _segment(text: str, *, is_folder: bool) -> str:
    safe = _FORBIDDEN.sub(_percent, text)
    if _DEVICE.fullmatch(safe):
        safe = _encoded(safe[0]) + safe[1:]
    if is_folder and safe.lower().endswith(".md"):  # else the copy of page `a` would stand where folder `a.md` must
        safe = safe[:-3] + "%2E" + safe[-2:]
    if not unicodedata.is_normalized("NFC", safe):  # some file systems take both forms for one name
        safe = "".join(character if character.isascii() else _encoded(character) for character in safe)
    data = safe.encode()
    if len(data) <= _MAX_SEGMENT_BYTES:
        return safe
    return f"{data[: _MAX_SEGMENT_BYTES - 40].decode('utf-8', 'ignore')}%-{_digest(text)}"


def _percent(match: re.Match[str]) -> str:
    return _encoded(match[0])


def _encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
