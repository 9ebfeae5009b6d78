"""Params for every method of the table: typed as it says, with values from the wild edges of each type."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from wikid_daemon.core.settings import BY_NAME
from wikid_protocol import messages
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS, MAX_QUERY_CODE_POINTS
from wikid_protocol.methods import METHODS, ProtocolRange

Params = dict[str, Any]

INTEGERS: Final = (0, 1, 2, 5, -1, 50, 1_000, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30)
TEXTS: Final = (
    *("", " ", "zebra", "\x00", "\n\r\t", "a" * 3_000, "Größe café 🎉", "港の帳簿", "‮نص", "e" + "\u0301" * 200),
    *("../../etc/passwd", "%00%2e%2e", "{{7*7}}", "'; DROP TABLE pages; --", "-1", "null", "\ufeff", "\U0010ffff"),
)
QUERIES: Final = (
    *("tok07zebra harbour", "Größe zebra 🎉", "zebra\x00zebra", "zebra " * 300, "", "   ", "港の帳簿 zebra"),
    *(
        "AND OR NOT (zebra",
        'title:zebra~2 "a b"^9 [a TO b] {x',
        "zebra*?*?",
        "../../zebra",
        "retry_budget zebra v1.0.21",
    ),
    *("x" * MAX_QUERY_CODE_POINTS, "x" * (MAX_QUERY_CODE_POINTS + 1), "🎉" * 1_999, "\u202ezebra", "\ud800zebra"),
    *("the of and", "?!.,;:", "zebra\nzebra\r\nzebra", "l'été zebra's", "\u0301" * 500, "zebra-" * 100),
)
"""Each of them that is long enough to be told holds a word by which a log is searched."""

VAULTS: Final = (
    "notes",
    "notes",
    "notes",
    "diary",
    "nowhere",
    "",
    "all",
    "active",
    "personal",
    "project",
    "../x",
    "\x00",
)
PAGES: Final = ("n01", "n07", "n12", "notes:n03", "diary:sources/learned", "sources/learned", "../n01", "/etc/passwd")
DATES: Final = ("2026-01-01", "2026-07", "2026", "yesterday", "2026-13-40", "-9999-01-01", "9999-12-31", "", "2026-W05")
SAFE_MODEL: Final = "no-such"
_NEVER_SET: Final = ("embedModel", "rerankModel")  # which would be built, or fetched


@dataclass(frozen=True, slots=True)
class Places:
    """Folders of this campaign's own: the two vaults that stay, and a folder for those that come and go."""

    notes: Path
    diary: Path
    spare: Path

    @property
    def comers(self) -> tuple[str, ...]:
        return tuple(str(self.spare / name) for name in ("one", "two", "two/deep"))


class Wild:
    """Makes params. What would stop the daemon, or change more than this campaign's own folders, is never made."""

    def __init__(self, places: Places) -> None:
        self._comers = (*places.comers, str(places.spare / "absent"), "relative", "\x00", "")
        folders = (
            str(places.notes),
            str(places.diary),
            "/",
            "/etc",
            "relative",
            "",
            "/nowhere/..",
            "\x00",
            "/" + "x" * 5_000,
        )
        files = (
            str(places.notes / "n01.md"),
            str(places.notes / "../notes/n02.md"),
            "/etc/passwd",
            "n01.md",
            "",
            "\x00",
        )
        self._pools: Mapping[str, tuple[Any, ...]] = {
            "query": QUERIES,
            **dict.fromkeys(("text", "content", "body", "correction", "rationale", "source_context", "scope"), QUERIES),
            "cwd": folders,
            "vault": VAULTS,
            "vault_id": VAULTS,
            **dict.fromkeys(("page_id", "selected_page_id", "other_page_id"), (*PAGES, *TEXTS)),
            **dict.fromkeys(("since", "until"), DATES),
            "mode": ("lexical", "hybrid", "adaptive", "quality", "psychic", ""),
            "types": ("concept", "entity", "nothing", ""),
            "session": ("s1", "s2", "s3", "", "x" * 500, "\x00"),
            **dict.fromkeys(("slug", "title", "topic"), ("learned", "Learned", "Größe", "../up", "", "a/b", "x" * 300)),
            "cursor": ("", "0", "1", "-1", "zzzz", "eyJhIjoxfQ==", "9" * 40),
            "key": (*BY_NAME, "nothing", "", "a.b", "\x00"),
            "progress_token": ("token", "", "x" * 500),
            "max_lines": (None, 0, 1, 10, -1, 10**9),
            "deadline_ms": (None, 0, 1, 20, 1_000, -5, 10**12),
            "timeout_ms": (0, 1, 1_000, -1, 10**9, 2**63),
            "relation": ("disagrees", "supersedes", "applies_under", "nothing"),
        }
        self._files = files

    def params(self, method: str, chance: random.Random) -> Params:
        """Params that the method may be called with."""
        found = {}
        for name, kind, required in _members(METHODS[method].params):
            if required or method.startswith("models/") or chance.random() < 0.4:
                pool = self._pool(method, name)
                found[name] = chance.choice(pool) if pool else self._value(kind, name, chance)
                if pool and get_origin(_bare(kind)) is tuple:
                    found[name] = [chance.choice(pool) for _ in range(chance.randrange(3))]
        return found

    def strategy(self, method: str) -> st.SearchStrategy[Params]:
        """The same as a strategy, which goes on where the pools end."""
        required, optional = {}, {}
        for name, kind, needed in _members(METHODS[method].params):
            pool = self._pool(method, name)
            bare = _bare(kind)
            if method.startswith("models/") or (pool and name in ("path", "name", "key")):
                made: st.SearchStrategy[Any] = st.sampled_from(pool or (None,))
            elif pool and get_origin(bare) is tuple:
                made = st.lists(st.sampled_from(pool) | st.text(max_size=20), max_size=5)
            elif pool:
                made = st.sampled_from(pool) | (st.text(max_size=80) if bare is str else _strategy(bare))
            else:
                made = _strategy(bare)
            if needed or method.startswith("models/"):
                required[name] = made
            else:
                optional[name] = made
        return st.fixed_dictionaries(required, optional=optional)

    def _pool(self, method: str, name: str) -> tuple[Any, ...]:
        if method.startswith("models/"):
            return {"name": (SAFE_MODEL, SAFE_MODEL + "\x00"), "purpose": ("embedder", "reranker")}.get(name, ())
        if method in ("vault/add", "vault/init") and name in ("path", "name", "mode"):
            return {"path": self._comers, "mode": ("personal", "project", "odd")}.get(
                name, ("spare", "", "x" * 300, "\x00")
            )
        if method == "vault/remove":
            return ("spare", "one", "two", "deep", "nowhere", "", *self._comers)
        if name == "path":
            return self._files
        return self._pools.get(name, ()) if method != "shutdown" else ()

    def _value(self, kind: Any, name: str, chance: random.Random) -> Any:
        bare = _bare(kind)
        if get_origin(bare) is Literal:
            return chance.choice(get_args(bare))
        if get_origin(bare) is tuple:
            return [self._value(get_args(bare)[0], name, chance) for _ in range(chance.randrange(3))]
        if get_origin(bare) is dict:
            return {chance.choice(TEXTS): chance.choice((*TEXTS, *INTEGERS)) for _ in range(chance.randrange(4))}
        if bare is bool:
            return chance.random() < 0.5
        if bare is int:
            return chance.choice(INTEGERS)
        if bare is str:
            return chance.choice(TEXTS)
        if bare is ProtocolRange:
            return {"min": chance.choice((0, 1, 2)), "max": chance.choice((0, 1, 99))}
        return {} if hasattr(bare, "__dataclass_fields__") else chance.choice((*TEXTS, *INTEGERS))


def harmless(message: bytes, wild_params: frozenset[str] = frozenset()) -> bool:
    """False where a message, or any line of it, is a call that would stop the daemon, or reach out of the campaign's
    folders, or take away what its other clients use. `wild_params` are the paths that may be registered."""
    return all(_is_harmless(each, wild_params) for each in {message, *message.split(b"\n")})


def _is_harmless(message: bytes, paths: frozenset[str]) -> bool:
    try:
        value = messages.parse(message)
    except RequestRefused:
        return True
    return all(_call_is_harmless(each, paths) for each in (value if isinstance(value, list) else [value]))


def _call_is_harmless(call: object, paths: frozenset[str]) -> bool:
    if not isinstance(call, dict):
        return True
    method, params = call.get("method"), call.get("params")
    params = {} if params is None else params
    if not isinstance(method, str) or method not in METHODS or not isinstance(params, dict):
        return True
    name = params.get("name")
    match method:
        case "shutdown":
            return "drain_ms" in params and type(params["drain_ms"]) is not int
        case "models/build" | "models/pull" | "models/use":
            return "name" in params and (not isinstance(name, str) or name.startswith(SAFE_MODEL))
        case "vault/add" | "vault/init":
            given = params.get("path")
            return (not isinstance(given, str) or given[:1] not in ("/", "~") or given in paths) and name not in (
                "notes",
                "diary",
            )
        case "vault/remove":
            given = params.get("vault")
            return (
                not isinstance(given, str) or given in ("spare", "one", "two", "deep", "nowhere", "") or given in paths
            )
        case "config/set":
            return params.get("key") not in _NEVER_SET
        case _:
            return True


def owed(message: bytes) -> int:
    """How many answers a message is owed, as JSON-RPC 2.0 counts them."""
    try:
        value = messages.parse(message)
    except RequestRefused:
        return 1
    if not isinstance(value, list):
        return _owed(value)
    if not 0 < len(value) <= LIMITS.queue:
        return 1
    return min(1, sum(map(_owed, value)))


def _owed(value: object) -> int:
    call = messages.read_call(value)
    return 0 if isinstance(call, messages.Call) and call.notification else 1


def asked(parts: Sequence[bytes]) -> tuple[set[Any], str | None]:
    """The ids that may be answered, and the method where there is one call alone."""
    ids: set[Any] = set()
    methods: list[str] = []
    for part in parts:
        try:
            value = messages.parse(part)
        except RequestRefused:
            continue
        for each in value if isinstance(value, list) else [value]:
            call = messages.read_call(each)
            ids.add(call.id)
            if isinstance(call, messages.Call):
                methods.append(call.method)
    return ids, methods[0] if len(methods) == 1 == len(parts) else None


def dumped(message: object) -> bytes:
    """JSON as other clients may write it: everything beyond ASCII escaped, lone surrogates and NaN included."""
    return json.dumps(message, skipkeys=True).encode()


@cache
def _members(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (each.name, hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    )


def _bare(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return getattr(kind, "__supertype__", kind)


def _strategy(bare: Any) -> st.SearchStrategy[Any]:
    if get_origin(bare) is Literal:
        return st.sampled_from(get_args(bare))
    if get_origin(bare) is tuple:
        return st.lists(_strategy(_bare(get_args(bare)[0])), max_size=5)
    if get_origin(bare) is dict:
        return st.dictionaries(
            st.text(max_size=20), st.none() | st.booleans() | st.integers() | st.text(max_size=50), max_size=5
        )
    if bare is bool:
        return st.booleans()
    if bare is int:
        return st.sampled_from(INTEGERS) | st.integers(-(2**70), 2**70)
    if bare is str:
        return st.sampled_from(TEXTS) | st.text(max_size=80)
    if hasattr(bare, "__dataclass_fields__"):
        return st.fixed_dictionaries({name: _strategy(_bare(kind)) for name, kind, _ in _members(bare)})
    return st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=80)
