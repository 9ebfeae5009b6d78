"""Messages behind headers, as language servers frame them, and the choice between the framings."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wikid_daemon.transport.headers import HEADER_BYTES, HeaderFraming
from wikid_daemon.transport.stream import choose_framing
from wikid_protocol.errors import RequestRefused

LIMIT = 200
NAMES = ("Content-Length", "content-length", "CONTENT-LENGTH", "Content-length")
CONTENT_TYPES = (
    "Content-Type: application/vscode-jsonrpc; charset=utf-8",
    'content-type:application/vscode-jsonrpc; Charset="UTF8"',
    "Content-Type: application/json",
    "X-Other: anything at all: even this",
)


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body, and how a client may send it."""
    body = draw(st.binary(max_size=60))
    spaces = draw(st.sampled_from(["", " ", "  "]))
    lines = [f"{draw(st.sampled_from(NAMES))}:{spaces}{len(body)}{spaces}"]
    lines += draw(st.lists(st.sampled_from(CONTENT_TYPES), max_size=2))
    return body, "\r\n".join(draw(st.permutations(lines))).encode() + b"\r\n\r\n" + body


@given(st.lists(framed(), max_size=4), st.lists(st.integers(min_value=0, max_value=600), max_size=10))
@settings(deadline=None)
def test_bodies_come_out_whole_however_they_are_cut(messages: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(sent for _, sent in messages)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    framing = HeaderFraming(LIMIT)

    found = [body for start, end in pairwise(edges) for body in framing.feed(stream[start:end])]

    assert found == [body for body, _ in messages]
    assert not framing.pending


@given(framed(), framed())
@settings(deadline=None, max_examples=25)
def test_two_messages_may_be_cut_at_every_byte(first: tuple[bytes, bytes], second: tuple[bytes, bytes]) -> None:
    stream = first[1] + second[1]
    for cut in range(len(stream) + 1):
        framing = HeaderFraming(LIMIT)
        found = [*framing.feed(stream[:cut])]
        assert framing.pending is (cut not in (0, len(first[1]), len(stream)))
        assert [*found, *framing.feed(stream[cut:])] == [first[0], second[0]]
    framing = HeaderFraming(LIMIT)
    assert list(chain.from_iterable(framing.feed(bytes([each])) for each in stream)) == [first[0], second[0]]


@given(st.lists(st.binary(max_size=60).filter(lambda body: b"\n" not in body), max_size=4))
@settings(deadline=None)
def test_what_is_encoded_is_read_again(bodies: list[bytes]) -> None:
    framing = HeaderFraming(LIMIT)
    stream = b"".join(framing.encode(body + b"\n") for body in bodies)
    assert list(framing.feed(stream)) == bodies


@pytest.mark.parametrize(
    "head",
    [
        "Content-Type: application/vscode-jsonrpc",
        "Content-Length: ",
        "Content-Length: -5",
        "Content-Length: +5",
        "Content-Length: 5.0",
        "Content-Length: 0x5",
        "Content-Length: five",
        "Content-Length: ٥",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\ncontent-length: 7",
        "Content-Length 5",
        "Content-Length: 5\r\nnothing",
        "Content-Length: 5\r\nContent-Type: application/json; charset=latin-1",
        "Content-Length: 5\n\nhello",
        f"Content-Length: {'9' * 5_000}",
        f"Content-Length: 5\r\nX: {'x' * HEADER_BYTES}",
        "",
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_malformed_headers_are_refused(head: str, step: int) -> None:
    stream = head.encode() + b"\r\n\r\nhello" + b"\r\n\r\n"
    framing = HeaderFraming(LIMIT)
    with pytest.raises(RequestRefused) as refused:
        list(chain.from_iterable(framing.feed(stream[at : at + step]) for at in range(0, len(stream), step)))
    assert refused.value.kind == "parse_error"


def test_headers_that_never_end_are_refused_while_they_are_still_few() -> None:
    framing = HeaderFraming(LIMIT)
    assert list(framing.feed(b"Content-Length: 5\r\nX: ")) == []
    with pytest.raises(RequestRefused):
        list(framing.feed(b"x" * HEADER_BYTES))


@pytest.mark.parametrize("length", [LIMIT + 1, 10**12])
def test_a_message_over_the_limit_is_refused_by_its_header(length: int) -> None:
    whole = b"Content-Length: 2\r\n\r\n{}"
    frames = HeaderFraming(LIMIT).feed(whole + b"Content-Length: %d\r\n\r\n" % length)
    assert next(frames) == b"{}"
    with pytest.raises(RequestRefused) as refused:
        next(frames)
    assert refused.value.kind == "message_too_large"


def test_a_message_of_exactly_the_limit_is_read() -> None:
    (body,) = HeaderFraming(LIMIT).feed(b"Content-Length: %d\r\n\r\n" % LIMIT + b"x" * LIMIT)
    assert len(body) == LIMIT


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'{"jsonrpc"', "lines"),
        (b"[", "lines"),
        (b"Content-Length: 5\r\n\r\n", "headers"),
        (b"content-type: x", "headers"),
        (b"CONTENT-LENGTH:1", "headers"),
        (b"GET /health HTTP/1.1\r\n", "http"),
        (b"POST /rpc HTTP/1.1\r\n", "http"),
        (b"OPTIONS * HTTP/1.1\r\n", "http"),
        (b"CONNECT x:1 HTTP/1.1\r\n", "http"),
    ],
)
def test_the_first_bytes_choose_the_framing_however_few_come_at_first(head: bytes, name: str) -> None:
    found = [choose_framing(head[:end]) for end in range(1, len(head) + 1)]
    assert set(found) <= {None, name}
    assert found[-1] == name
    decided = found.index(found[-1])
    assert set(found[decided:]) == {name}
    assert decided < 9


@pytest.mark.parametrize("head", [b"GETTING", b"CONTEND", b"get /health", b"POS\0", b"\r\nContent-Length: 5"])
def test_what_only_begins_like_a_framing_is_refused(head: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        choose_framing(head)
    assert refused.value.kind == "parse_error"
