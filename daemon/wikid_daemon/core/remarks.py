"""What lint says of a vault: a finding with what it is about besides, and what can be done about each code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from wikid_daemon.core.names import sort_key
from wikid_daemon.core.page import Finding

Weight = Literal["error", "warning", "hint"]
_WEIGHTS: Final[tuple[Weight, ...]] = ("error", "warning", "hint")


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding of lint. A `hint` is no fault, only worth a look. `path` is relative to the pages, but for files of
    the vault that are none, as `meta/registry.json`; `related` are ids of other pages it is about."""

    severity: Weight
    code: str
    path: str
    message: str
    line: int | None = None
    column: int | None = None
    related: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        return REMEDIES.get(self.code, "")


def remark(finding: Finding) -> Remark:
    return Remark(finding.severity, finding.code, finding.path, finding.message, finding.line, finding.column)


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Errors, warnings, hints; in each by code, path and line."""
    return sorted(
        remarks,
        key=lambda each: (
            _WEIGHTS.index(each.severity),
            each.code,
            sort_key(each.path),
            each.line or 0,
            each.column or 0,
            each.message,
            each.related,
        ),
    )


_FENCES = "begin the page with its frontmatter, between two lines of three hyphens"
_YAML = "repair the frontmatter; quote a value that holds a colon, a quote or a backslash"
_RELATION = "write each relation as target, type and, for applies_under, scope"
_LINK = "correct the link, or write the page"
_DECIDE = "decide between the two pages; wikid recall shows both until then"
_EVENTS = "look at the line; it is passed over until it is whole"

REMEDIES: Final[dict[str, str]] = {
    "frontmatter_missing": _FENCES,
    "frontmatter_parse_error": _YAML,
    "frontmatter_duplicate_key": "keep one of the two keys",
    "frontmatter_multiple_documents": "keep one YAML document in the frontmatter",
    "frontmatter_alias_forbidden": "write the value out where the alias stands",
    "frontmatter_custom_tag_forbidden": "remove the tag",
    "frontmatter_limit_bytes": "move text from the frontmatter into the body",
    "frontmatter_limit_depth": "make the frontmatter flatter",
    "concept_missing_type": "give the page a type, as in: type: concept",
    "concept_identity_collision": "rename one of the two files",
    "document_limit_bytes": "cut the page into several",
    "document_bad_utf8": "save the file as UTF-8",
    "document_nul": "remove the NUL characters",
    "config_invalid_knowledge_format": "repair config.json",
    "config_invalid_vault_id": "give vault_id in config.json a UUID, or remove the key",
    "okf_version_mismatch": 'declare okf_version: "0.2" in wiki/index.md',
    "link_unresolved": _LINK,
    "link_path_escape": "link to a page of this wiki",
    "page_missing": "write the page",
    "page_orphan": "link to it from a page that a reader would come from",
    "relation_invalid_shape": _RELATION,
    "relation_unknown_type": _RELATION,
    "relation_invalid_target": "name the target by its page id, as in: concepts/name",
    "relation_invalid_scope": _RELATION,
    "relation_self_link": "remove it",
    "relation_duplicate": "remove it",
    "relation_missing_target": "correct the target, or write the page",
    "relation_missing_body_link": "link to the target in the body too, as in: [name](/concepts/name.md)",
    "evidence_missing": "name what it rests on: sources, a derived_from relation, or a page that supports it",
    "conflict_unresolved": _DECIDE,
    "conflict_undecided": "decide again, naming the record that is replaced",
    "contradiction_marker": "settle it, then remove the marker",
    "supersedes_cycle": "remove one of the two relations, or mark one page deprecated",
    "resolution_invalid": "decide the conflict again, or remove the page",
    "resolution_id_mismatch": "decide the conflict again where the record was edited by hand",
    "resolution_missing_claim": "bring the page back, or remove the record",
    "status_unknown": "use draft, stable or deprecated; any other word counts as stable",
    "date_invalid": "write 2026-07-01, or 2026-07-01T12:00:00Z",
    "verified_invalid_shape": "write verified as a list of by and at",
    "page_stale": "check it, then move stale_after on",
    "verification_outdated": "verify it again: it was generated anew since",
    "conflict_copy": "merge it into its original and remove it; until then it is not found",
    "suspicious_copy_name": "if it is a copy, merge it into the other page and remove it",
    "generated_file_edited": "wikid rebuild-meta",
    "index_hand_written": "move its text to a page; until then it is kept, and no index is made there",
    "log_hand_written": "move its text to a page; until then it is kept, and no log is made there",
    "search_stale": "see: wikid status",
    "event_invalid_json": _EVENTS,
    "event_invalid_timestamp": _EVENTS,
    "event_missing_kind": _EVENTS,
    "event_source_unreadable": "check the file and its permissions",
    "feedback_disabled": "look at the line, then: wikid events --acknowledge",
}
