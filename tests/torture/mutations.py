"""Messages that are no longer what they were: each is a valid call of the table with one thing done to it.

The input of a seed and a number is always the same, so that one that broke something can be made again alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from torture.values import INTEGERS, TEXTS, Params, Places, Wild, dumped, harmless
from wikid_protocol.limits import LIMITS
from wikid_protocol.methods import METHODS

Message = dict[str, Any]

SELDOM: Final = frozenset(
    {
        *("index/verify", "index/reindex", "index/sync", "vault/rebuild_meta", "vault/init", "vault/add"),
        *("vault/remove", "vault/lint", "doctor", "models/verify", "observe", "page/ensure", "status"),
    }
)
"""Methods that take long when they are called rightly, or leave something behind."""
_SELDOM: Final = 0.03
METHOD_NAMES: Final = (
    *(
        "",
        "recall\x00",
        "RECALL",
        " ping",
        "ping ",
        "__class__",
        "$/progress",
        "rpc.discover",
        "index/",
        "/",
        "x" * 10_000,
    ),
    *("$/cancelRequest", "index/changed", "vault/../ping", "ping\u0301", "status;shutdown"),
)
WRONG_TYPES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, "", "zebra", [], {}, [[]], {"a": {}}, [None], 1e308, "\x00"),
    *([1, "two", None], {"": ""}, 2**64, -(2**63) - 1),
)
IDS: Final[tuple[Any, ...]] = (
    None,
    True,
    1.5,
    [],
    {},
    "",
    "x" * 1_000,
    2**53,
    2**63,
    10**40,
    -1,
    "\x00",
    "\ud800",
    [1],
    {"id": 1},
)


class Mutations:
    """Makes the messages of a campaign."""

    def __init__(self, seed: int, places: Places) -> None:
        self._seed = seed
        self._wild = Wild(places)
        self._paths = frozenset(places.comers)
        self._methods = sorted(METHODS)
        self._weights = [_SELDOM if each in SELDOM else 1.0 for each in self._methods]
        self._whole: tuple[tuple[Callable[[Message, random.Random], bytes], int], ...] = (
            (self._as_it_is, 10),
            (self._swap_type, 10),
            (self._drop_member, 4),
            (self._rename_member, 3),
            (self._wrong_id, 4),
            (self._as_notification, 3),
            (self._other_method, 4),
            (self._wrong_envelope, 3),
            (self._deep, 3),
            (self._duplicate_key, 3),
            (self._not_a_number, 3),
            (self._surrogate, 3),
            (self._more_members, 2),
            (self._batch, 5),
            (self._cancel, 3),
            (self._edit_bytes, 8),
            (self._other_encoding, 2),
            (self._two_values, 2),
        )

    def message(self, stream: str, number: int) -> bytes:
        """The message with this number in a stream of inputs; made anew until it can do no harm."""
        chance = random.Random(f"{self._seed}/{stream}/{number}")
        change = chance.choices([each for each, _ in self._whole], [weight for _, weight in self._whole])[0]
        while not harmless(made := change(self._call(chance), chance), self._paths):
            continue
        return made

    def plain(self, chance: random.Random) -> bytes:
        """A quick call that is as it should be."""
        method = chance.choice(("ping", "recall", "page/get", "page/search", "vault/list"))
        return dumped(self._call(chance, method))

    def _call(self, chance: random.Random, method: str | None = None) -> Message:
        method = method or chance.choices(self._methods, self._weights)[0]
        params: Params = {"drain_ms": "soon"} if method == "shutdown" else self._wild.params(method, chance)
        return {"jsonrpc": "2.0", "id": chance.randrange(10**6), "method": method, "params": params}

    # -- one thing done to a call --------------------------------------------------------------------------------------

    def _as_it_is(self, call: Message, _chance: random.Random) -> bytes:
        return dumped(call)

    def _swap_type(self, call: Message, chance: random.Random) -> bytes:
        params = call["params"]
        name = chance.choice(sorted(params) or ["vault"])
        params[name] = chance.choice((*WRONG_TYPES, *TEXTS, *INTEGERS))
        if chance.random() < 0.1:
            call["params"] = chance.choice(WRONG_TYPES)
        return dumped(call)

    def _drop_member(self, call: Message, chance: random.Random) -> bytes:
        place = call["params"] if call["params"] and chance.random() < 0.6 else call
        place.pop(chance.choice(sorted(place)))
        return dumped(call)

    def _rename_member(self, call: Message, chance: random.Random) -> bytes:
        place = call["params"] or call
        name = chance.choice(sorted(place))
        place[chance.choice((name.upper(), name + "\x00", "__proto__", ""))] = place.pop(name)
        return dumped(call)

    def _wrong_id(self, call: Message, chance: random.Random) -> bytes:
        return dumped({**call, "id": chance.choice(IDS)})

    def _as_notification(self, call: Message, _chance: random.Random) -> bytes:
        call.pop("id")
        return dumped(call)

    def _other_method(self, call: Message, chance: random.Random) -> bytes:
        return dumped({**call, "method": chance.choice((*METHOD_NAMES, *WRONG_TYPES))})

    def _wrong_envelope(self, call: Message, chance: random.Random) -> bytes:
        call["jsonrpc"] = chance.choice(("1.0", 2.0, None, "", "2.0 ", []))
        return dumped(chance.choice((call, [], {}, [[]], [call], "ping", 5, None, [call, 5, []], True)))

    def _deep(self, call: Message, chance: random.Random) -> bytes:
        levels = chance.choice((LIMITS.depth - 3, LIMITS.depth - 2, LIMITS.depth, 500, 20_000))
        opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
        value = opening * levels + (b"1" if opening != b"[" else b"") + closing * levels
        return dumped({**call, "params": {**call["params"], "deep": "@"}}).replace(b'"@"', value)

    def _duplicate_key(self, call: Message, chance: random.Random) -> bytes:
        name = chance.choice(sorted(call))
        return dumped(call)[:-1] + b", " + dumped({name: chance.choice(WRONG_TYPES)})[1:]

    def _not_a_number(self, call: Message, chance: random.Random) -> bytes:
        value = chance.choice(
            (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"01", b"0x10", b"1_0", b"9" * 5_000)
        )
        return dumped({**call, "params": {**call["params"], "max_results": "@"}}).replace(b'"@"', value)

    def _surrogate(self, call: Message, chance: random.Random) -> bytes:
        text = chance.choice(("\ud800", "a\udfff", "\udc00\ud800", "\ud83d"))
        name = chance.choice(sorted(call["params"]) or ["vault"])
        return dumped({**call, "params": {**call["params"], name: text}})

    def _more_members(self, call: Message, chance: random.Random) -> bytes:
        more = {f"m{number}": chance.choice(TEXTS) for number in range(chance.choice((1, 30, 2_000)))}
        return dumped({**call, "params": {**more, **call["params"]}, **dict(list(more.items())[:40])})

    def _batch(self, call: Message, chance: random.Random) -> bytes:
        count = chance.choice((1, 2, 5, 40)) if chance.random() < 0.95 else LIMITS.queue + chance.randrange(2)
        method = None if count <= 5 else "ping"
        calls: list[Any] = [self._call(chance, method) for _ in range(count)]
        calls[chance.randrange(count)] = chance.choice((call, {**calls[0]}, *WRONG_TYPES))
        return dumped(calls)

    def _cancel(self, call: Message, chance: random.Random) -> bytes:
        wanted = chance.choice((*IDS, call["id"]))
        return dumped([call, {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": wanted}}])

    def _edit_bytes(self, call: Message, chance: random.Random) -> bytes:
        data = bytearray(dumped(call))
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = chance.randrange(len(data))
            match chance.randrange(5):
                case 0:
                    data[at] = chance.randrange(256)
                case 1:
                    data.insert(at, chance.choice(b'"{}[]\\,:\x00\xff\n'))
                case 2:
                    del data[at]
                case 3:
                    del data[at:]
                case _:
                    data[at:at] = data[: chance.randrange(40)]
            data = data or bytearray(b"x")
        return bytes(data)

    def _other_encoding(self, call: Message, chance: random.Random) -> bytes:
        text = json.dumps(call)
        return chance.choice(
            (
                b"\xef\xbb\xbf" + text.encode(),
                text.encode("utf-16"),
                text.replace('"', "'").encode(),
                b"\xff" + text.encode(),
                (" \t" * 500 + text + " " * 500).encode(),
                text.encode() + b"\x00",
                json.dumps(call, ensure_ascii=False).encode("utf-8", "surrogatepass"),
            )
        )

    def _two_values(self, call: Message, chance: random.Random) -> bytes:
        one = dumped(call)
        return chance.choice((one + b" " + one, one + b",", b"[" + one + b",]", one[:-1], b"/*x*/" + one, b"[" + one))


def pieces(data: bytes, chance: random.Random) -> Sequence[bytes]:
    """The bytes cut at random places."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 2, 5))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < end]
