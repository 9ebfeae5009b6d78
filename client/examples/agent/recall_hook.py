#!/usr/bin/env python3
"""A hook for coding agents: what the notes know before a turn, and afterwards what became of it.

The host runs it with one JSON object on standard input, in the form of Claude Code or in one that any host can write:

    before a turn  {"hook_event_name": "UserPromptSubmit", "session_id", "cwd", "prompt"}
                   {"event": "before_turn", "session", "cwd", "prompt"}
    a file read    {"hook_event_name": "PostToolUse", "session_id", "cwd", "tool_name": "Read",
                    "tool_input": {"file_path"}}
                   {"event": "file_read", "session", "cwd", "path"}
    a turn's end   {"hook_event_name": "Stop", "session_id", "last_assistant_message", "transcript_path"}
                   {"event": "turn_end", "session", "text"}

Memory is from the vaults that apply to `cwd`, or from the one that is named after the command: `recall_hook.py notes`.
Before a turn it prints Markdown for the model, quoted between two lines with the daemon's marker, or nothing where
nothing is reliable. It prints nothing else, starts no daemon, waits no longer than `CALL_SECONDS` for one, and always
exits with 0: a turn goes on without memory rather than not at all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

try:
    from wikid_client import Client, WikidError
    from wikid_client.render import recall_context
except (ImportError, SyntaxError) as problem:  # another Python than the one wikid is installed in, or an older one
    print(f"wikid hook: run it with the Python that wikid is installed in ({problem})", file=sys.stderr)
    sys.exit(0)

RECALL_MS: Final = 250
CALL_SECONDS: Final = 0.4  # the recall, and the way there and back
LONGEST_QUERY: Final = 2_000  # code points, as the protocol has it
TRANSCRIPT_BYTES: Final = 1_000_000  # from its end; no turn says more

_EVENTS: Final = {"UserPromptSubmit": "before_turn", "PostToolUse": "file_read", "Stop": "turn_end"}
_READING_TOOLS: Final = ("Read", "NotebookRead")


@dataclass(frozen=True, slots=True)
class Moment:
    """What the host tells. `path` is absolute; an unknown `event` is one to do nothing about."""

    event: str
    session: str | None
    cwd: str
    prompt: str
    path: str
    text: str


def main() -> int:
    """Read the host's object, do what it is for, and never fail."""
    try:
        vault = sys.argv[1] if len(sys.argv) > 1 else None
        told = respond(moment_of(json.loads(sys.stdin.buffer.read())), vault)
        sys.stdout.buffer.write(told.encode())
        sys.stdout.buffer.flush()
    except WikidError:
        pass  # no daemon, no time, or a refusal: nothing that the turn should wait for or hear of
    except Exception as error:  # noqa: BLE001 - whatever it is, the host's turn must go on
        print(f"wikid hook: {type(error).__name__}", file=sys.stderr)
    return 0


def respond(moment: Moment, vault: str | None = None) -> str:
    """Tell the daemon, and return what the model is to read. WikidError."""
    with Client(start=False, timeout=CALL_SECONDS) as wikid:
        if moment.event == "before_turn" and moment.prompt.strip():
            answer = wikid.recall(
                moment.prompt[:LONGEST_QUERY],
                cwd=moment.cwd,
                vault=vault,
                policy="automatic",
                session=moment.session,
                deadline_ms=RECALL_MS,
            )
            return recall_context(answer) if answer.bundles else ""
        if moment.event == "file_read" and moment.session and moment.path:
            wikid.feedback_signal("opened", session=moment.session, path=moment.path)
        if moment.event == "turn_end" and moment.session:
            if moment.text:
                wikid.feedback_signal("cited", session=moment.session, text=moment.text)
            wikid.feedback_signal("turn_end", session=moment.session)
    return ""


def moment_of(given: dict[str, Any]) -> Moment:
    """What the host's object says, in either form."""
    cwd = _text(given, "cwd") or os.getcwd()
    path = _text(given, "path")
    if _text(given, "tool_name") in _READING_TOOLS:
        path = _text(given.get("tool_input"), "file_path") or _text(given.get("tool_input"), "notebook_path")
    event = _EVENTS.get(_text(given, "hook_event_name"), _text(given, "event"))
    said = [_text(given, "text"), _text(given, "last_assistant_message")]
    if event == "turn_end" and (transcript := _text(given, "transcript_path")):
        said += said_in_turn(Path(transcript))
    return Moment(
        event=event,
        session=_text(given, "session_id") or _text(given, "session") or None,
        cwd=cwd,
        prompt=_text(given, "prompt"),
        path=os.path.join(cwd, path) if path else "",
        text="\n".join(filter(None, said)),
    )


def said_in_turn(transcript: Path) -> list[str]:
    """What the agent wrote since the last prompt, last things first, as Claude Code keeps it: a JSON object a line."""
    said: list[str] = []
    for entry in reversed(list(_entries(transcript))):
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [text for each in blocks if _text(each, "type") == "text" and (text := _text(each, "text"))]
        if entry.get("type") == "assistant":
            said += reversed(texts)
        elif entry.get("type") == "user" and texts and not entry.get("isMeta"):
            break  # results of tools are from "user" too, but hold no text of their own
    return said


def _entries(transcript: Path) -> Iterator[dict[str, Any]]:
    try:
        with transcript.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TRANSCRIPT_BYTES))
            lines = file.read(TRANSCRIPT_BYTES).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # the first line may be half of one, and the last still be written
            continue
        if isinstance(entry, dict) and not entry.get("isSidechain"):
            yield entry


def _text(given: object, name: str) -> str:
    """A member that is text, without what UTF-8 cannot hold; empty where it is none."""
    found = given.get(name) if isinstance(given, dict) else None
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""


if __name__ == "__main__":
    sys.exit(main())
