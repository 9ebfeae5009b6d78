"""Plain records that parsing produces; they hold no parser objects and compare by value."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007

Severity = Literal["error", "warning"]
Role = Literal["canonical", "evidence"]
Status = Literal["draft", "stable", "deprecated"]
LinkKind = Literal["markdown", "wikilink"]
Choice = Literal["supersedes", "qualifies", "applies_under"]
BlockKind = Literal["heading", "code", "table", "prose", "lines"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a page (vault format §2.3). Lines and columns count from 1 in the file.

    The message never repeats text of the page.
    """

    severity: Severity
    code: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """One entry of `verified`: an actor and, when readable, a time in RFC 3339."""

    by: str
    at: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a page id, existing or not, and the file line where its block (Markdown) or the link itself stands."""

    kind: LinkKind
    target: str
    line: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed link to another page; `scope` is set for `applies_under` only."""

    target: str
    type: str
    scope: str | None


@dataclass(frozen=True, slots=True)
class Resolution:
    """A person's decision between two claims: what page `selected` is to page `other`.

    `scope` is set for `applies_under` alone; `replaces` is the id of the record that this one replaces.
    """

    id: str
    selected: str
    other: str
    relation: Choice
    scope: str | None
    decided_by: str
    decided_at: str
    replaces: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level stretch of the body: 0-based half-open body lines. Blocks cover the body without gaps.

    `level` and `heading` (plain text) are set for headings only. `prose` may be cut between sentences, `lines`
    between lines.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    heading: str = ""


@dataclass(frozen=True, slots=True)
class KnowledgeDocument:
    """A parsed page.

    `path` is relative to the wiki (or plain folder) and keeps its suffix; `page_id` is that path in NFC without a
    final `.md`. Times are RFC 3339 with offset. `metadata` is the whole frontmatter, safe to encode as JSON.
    `body` has LF line ends and begins at file line `body_line`, counting from 1.
    """

    page_id: str
    path: str
    title: str
    type: str
    role: Role
    status: Status
    description: str
    domain: str | None
    category: str | None
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    recall_triggers: tuple[str, ...]
    created: str | None
    updated: str | None
    stale_after: str | None
    generated_at: str | None
    verified: tuple[Verification, ...]
    resolution: Resolution | None
    links: tuple[Link, ...]
    relations: tuple[Relation, ...]
    metadata: dict[str, Json]
    body: str
    body_line: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The document, or None when an error finding explains why there is none."""

    document: KnowledgeDocument | None
    findings: tuple[Finding, ...]
