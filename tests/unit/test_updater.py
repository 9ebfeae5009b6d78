"""What other threads ask of an updater while it looks at files."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

from wikid_daemon.updater import IndexState, Updater

FILES = 2_000
ROUNDS = 20


def test_any_thread_may_ask_whether_files_are_tried_again_while_they_come_and_go() -> None:
    catalog = SimpleNamespace(known_files=dict)
    reader: Any = SimpleNamespace(vault=SimpleNamespace())
    store: Any = SimpleNamespace(catalog=catalog)
    mirror: Any = None
    updater = Updater(reader, store, mirror, IndexState(), lambda: 0)
    over = threading.Event()
    problems: list[Exception] = []

    def ask() -> None:
        while not over.is_set():
            try:
                _ = updater.retrying
            except Exception as problem:  # noqa: BLE001 - told by the assertion
                problems.append(problem)
                return

    asking = threading.Thread(target=ask)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        asking.start()
        for _ in range(ROUNDS):
            for number in range(FILES):
                updater._note_failure(f"p{number}.md", "vanished")
            for number in range(FILES):
                updater._forget_failure(f"p{number}.md")
    finally:
        sys.setswitchinterval(before)
        over.set()
        asking.join()
    assert problems == []
