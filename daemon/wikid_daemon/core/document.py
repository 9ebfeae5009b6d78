"""Page bytes → `KnowledgeDocument` or the findings that explain why there is none.

Strict pages belong to vaults with the marker and follow vault format §2 to the letter. Pages of plain folders are never
refused for their frontmatter: what cannot be read as YAML is recovered line by line or left in the body.
"""

import codecs
import unicodedata
from dataclasses import dataclass
from typing import Final

from wikid_daemon.core import frontmatter, markdown, recovery, relations, resolutions
from wikid_daemon.core.dates import normalised
from wikid_daemon.core.links import extract
from wikid_daemon.core.page import (
    Block,
    Finding,
    Json,
    KnowledgeDocument,
    Link,
    Parsed,
    Relation,
    Role,
    Severity,
    Status,
    Verification,
)

__all__ = ["MAX_BYTES", "Block", "Finding", "Json", "KnowledgeDocument", "Link", "Parsed", "Relation", "Verification"]
__all__ += ["parse_page", "role_of", "status_of"]

MAX_BYTES: Final = 4 * 1024 * 1024
_CANONICAL_TYPES = frozenset({"concept", "entity", "analysis", "synthesis", "requirement", "skill", "case"})
_STATUSES: dict[str, Status] = {
    **dict.fromkeys(("skeleton", "stub", "draft", "clarified"), "draft"),
    **dict.fromkeys(("deprecated", "rejected"), "deprecated"),
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class _Head:
    """A page cut into metadata and body. `body_line` counts from 1 in the file."""

    metadata: dict[str, Json]
    body: str
    body_line: int


def parse_page(path: str, data: bytes, *, strict: bool) -> Parsed:
    """Parse the page at `path` (relative to the wiki or folder, `/` separators, with suffix).

    Without a document the findings hold exactly one error; beside a document they are all warnings.
    """
    if len(data) > MAX_BYTES:
        return Parsed(None, (Finding("error", "document_limit_bytes", path, f"the file exceeds {MAX_BYTES} bytes"),))
    text, findings = _decode(path, data, strict=strict)
    cut = _cut_strictly(text) if strict else _cut_leniently(text, path, findings)
    if isinstance(cut, frontmatter.Fault):
        return Parsed(None, (*findings, _finding("error", cut, path)))
    return Parsed(_document(path, cut, findings, strict=strict), tuple(findings))


def _decode(path: str, data: bytes, *, strict: bool) -> tuple[str, list[Finding]]:
    """The text with LF line ends and no NUL, and warnings for what had to be replaced."""
    encoding = "utf-8" if strict else "utf-8-sig"
    if not strict and data.startswith(_UTF16):
        encoding = "utf-16"
    findings = []
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        message = f"bytes that are not {encoding[:6].upper()} were replaced"
        findings.append(Finding("warning", "document_bad_utf8", path, message))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        text = text.replace("\0", "\ufffd")
        findings.append(Finding("warning", "document_nul", path, "NUL characters were replaced", line))
    return text, findings


def _cut_strictly(text: str) -> _Head | frontmatter.Fault:
    fenced = frontmatter.split(text)
    if isinstance(fenced, frontmatter.Fault):
        return fenced
    metadata = frontmatter.parse(fenced.yaml)
    if isinstance(metadata, frontmatter.Fault):
        return metadata
    kind = metadata.get("type")
    if not isinstance(kind, str) or not kind.strip():
        return frontmatter.Fault("concept_missing_type", "the frontmatter needs a type that is text and not blank", 1)
    return _Head(metadata, fenced.body, fenced.body_line)


def _cut_leniently(text: str, path: str, findings: list[Finding]) -> _Head:
    whole = _Head({}, text, 1)
    fenced = frontmatter.split(text)
    if isinstance(fenced, frontmatter.Fault):
        if text.startswith("---\n") and recovery.begins_like_mapping(text[4:]):
            findings.append(_finding("warning", fenced, path))
        return whole
    if not fenced.yaml.strip():
        return _Head({}, fenced.body, fenced.body_line)
    metadata = frontmatter.parse(fenced.yaml)
    if not isinstance(metadata, frontmatter.Fault):
        return _Head(metadata, fenced.body, fenced.body_line)
    recovered = recovery.recover(fenced.yaml)
    if recovered is None:
        return whole
    findings.append(_finding("warning", metadata, path))
    return _Head(recovered, fenced.body, fenced.body_line)


def _finding(severity: Severity, fault: frontmatter.Fault, path: str) -> Finding:
    return Finding(severity, fault.code, path, fault.message, fault.line, fault.column)


def _document(path: str, head: _Head, findings: list[Finding], *, strict: bool) -> KnowledgeDocument:
    metadata = head.metadata
    page_id = unicodedata.normalize("NFC", path).removesuffix(".md")
    outline = markdown.outline(head.body)
    links = extract(path, head.body, head.body_line, outline.destinations)
    linked_ids = {link.target for link in links.links if link.kind == "markdown"}
    related = relations.read(metadata.get("relations"), page_id=page_id, path=path, linked_ids=linked_ids)
    findings += links.findings + related.findings
    kind = _text(metadata.get("type")) or "page"
    generated = metadata.get("generated")
    return KnowledgeDocument(
        page_id=page_id,
        path=path,
        title=_title(page_id, metadata, outline.blocks, strict=strict),
        type=kind if not strict else str(metadata["type"]),
        role=role_of(kind),
        status=status_of(metadata.get("status")),
        description=_text(metadata.get("description")) or _text(metadata.get("summary")) or "",
        domain=_text(metadata.get("domain")),
        category=_text(metadata.get("category")),
        aliases=_texts(metadata.get("aliases")),
        tags=_tags(metadata.get("tags")),
        recall_triggers=_texts(metadata.get("recall_triggers")),
        created=_time("created", metadata.get("created"), path, findings),
        updated=_time("updated", metadata.get("updated"), path, findings),
        stale_after=_time("stale_after", metadata.get("stale_after"), path, findings),
        generated_at=_time("generated.at", generated.get("at"), path, findings)
        if isinstance(generated, dict)
        else None,
        verified=_verified(metadata.get("verified"), path, findings),
        resolution=resolutions.read(_text(metadata.get("category")), metadata.get("resolution")),
        links=links.links,
        relations=related.relations,
        metadata=metadata,
        body=head.body,
        body_line=head.body_line,
        blocks=outline.blocks,
    )


def role_of(kind: str) -> Role:
    """The retrieval role of a page type; case and surrounding space do not matter (vault format §11.15)."""
    return "canonical" if kind.strip().lower() in _CANONICAL_TYPES else "evidence"


def status_of(value: Json) -> Status:
    """One of three states for the wider vocabulary met in vaults (vault format §11.14)."""
    return _STATUSES.get(value.strip().lower(), "stable") if isinstance(value, str) else "stable"


def _title(page_id: str, metadata: dict[str, Json], blocks: tuple[Block, ...], *, strict: bool) -> str:
    """`title` when it is text; else, in plain folders, the first H1; else the file name."""
    title = _text(metadata.get("title"))
    if title is None and not strict:
        title = next((block.heading for block in blocks if block.level == 1 and block.heading), None)
    return title or page_id.rsplit("/", 1)[-1]


def _text(value: Json) -> str | None:
    """A non-blank string, trimmed."""
    return (value.strip() or None) if isinstance(value, str) else None


def _texts(value: Json) -> tuple[str, ...]:
    """The strings and numbers of a list, or one string alone; trimmed, without repeats."""
    items = value if isinstance(value, list) else [value]
    words = (str(item).strip() for item in items if isinstance(item, str | int | float) and not isinstance(item, bool))
    return tuple(dict.fromkeys(word for word in words if word))


def _tags(value: Json) -> tuple[str, ...]:
    """A list, or one string that separates tags by spaces or commas; a leading `#` is dropped."""
    items: Json = list(value.replace(",", " ").split()) if isinstance(value, str) else value
    return tuple(dict.fromkeys(name for tag in _texts(items) if (name := tag.lstrip("#"))))


def _time(key: str, value: Json, path: str, findings: list[Finding]) -> str | None:
    if value is None:
        return None
    time = normalised(value)
    if time is None:
        findings.append(
            Finding("warning", "date_invalid", path, f"{key} is neither RFC 3339 nor a date; it is treated as absent")
        )
    return time


def _verified(value: Json, path: str, findings: list[Finding]) -> tuple[Verification, ...]:
    """The entries with an actor; a bare mapping counts as a list of one (vault format §10)."""
    if value is None:
        return ()
    kept = []
    for item in value if isinstance(value, list) else [value]:
        by = _text(item.get("by")) if isinstance(item, dict) else None
        if by is not None and isinstance(item, dict):
            kept.append(Verification(by, _time("verified.at", item.get("at"), path, findings)))
        else:
            message = "verified must be a list of mappings with by and at; other entries are ignored"
            findings.append(Finding("warning", "verified_invalid_shape", path, message))
    return tuple(kept)
