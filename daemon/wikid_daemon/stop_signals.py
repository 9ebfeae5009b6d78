"""What tells the daemon to stop: SIGTERM and SIGINT; on Windows Ctrl-C, Ctrl-Break, and the end of the console."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

if sys.platform == "win32":
    from wikid_daemon import win32

    _CONSOLE: Final = "CTRL_CLOSE"


def watch(tell: Callable[[str], None]) -> Callable[[], None]:
    """Have `tell` called with the signal's name, in the running loop's thread; what is returned ends that.

    Does nothing outside the main thread, which alone may take signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    return _watch(asyncio.get_running_loop(), tell)


if sys.platform == "win32":

    def _watch(loop: asyncio.AbstractEventLoop, tell: Callable[[str], None]) -> Callable[[], None]:
        def on_signal(number: int, _frame: object) -> None:
            loop.call_soon_threadsafe(tell, signal.Signals(number).name)

        kept = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGBREAK)}
        forget = win32.when_console_ends(lambda: loop.call_soon_threadsafe(tell, _CONSOLE))

        def end() -> None:
            forget()
            for each, handler in kept.items():
                signal.signal(each, handler)

        return end
else:

    def _watch(loop: asyncio.AbstractEventLoop, tell: Callable[[str], None]) -> Callable[[], None]:
        numbers = (signal.SIGTERM, signal.SIGINT)
        for each in numbers:
            loop.add_signal_handler(each, tell, each.name)

        def end() -> None:
            for each in numbers:
                loop.remove_signal_handler(each)

        return end
