"""Many clients at once against one daemon, beside one that does not read and files that change without rest.

The clients are plain sockets in processes of their own, so that the measuring costs the daemon as little as can be.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import orjson

PROCESSES: Final = 2
READ_BYTES: Final = 4_000_000
GIVE_UP_SECONDS: Final = 600.0

Request = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Tally:
    """What clients saw: the milliseconds of each call that was answered, refusals as busy, and what went wrong."""

    milliseconds: list[float] = field(default_factory=list)
    busy: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        self.milliseconds += other.milliseconds
        self.busy += other.busy
        self.errors += other.errors
        self.seconds = max(self.seconds, other.seconds)

    @property
    def rate(self) -> float:
        """Calls answered a second."""
        return len(self.milliseconds) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def crowd(endpoint: Path, clients: int, calls: int, requests: Sequence[Request], processes: int = PROCESSES) -> Tally:
    """So many clients, each with so many calls one after another; in this process where one is enough."""
    if min(clients, processes) == 1:
        return asyncio.run(_clients(endpoint, clients, calls, requests, 0))
    shares = [clients // processes + (number < clients % processes) for number in range(processes)]
    total = Tally()
    # not forked: threads of this process may hold locks
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        runs = [
            pool.submit(_run, endpoint, share, calls, list(requests), number * 1_000)
            for number, share in enumerate(shares)
        ]
        for each in runs:
            total.add(each.result(GIVE_UP_SECONDS * 10))
    return total


def _run(endpoint: Path, clients: int, calls: int, requests: Sequence[Request], first: int) -> Tally:
    return asyncio.run(_clients(endpoint, clients, calls, requests, first))


async def _clients(endpoint: Path, clients: int, calls: int, requests: Sequence[Request], first: int) -> Tally:
    total = Tally()
    began = time.monotonic()
    mine = (
        itertools.islice(itertools.cycle(requests), (first + each) * 7 % len(requests), None) for each in range(clients)
    )
    for tally in await asyncio.gather(*(_client(endpoint, calls, each) for each in mine)):
        total.add(tally)
    total.seconds = time.monotonic() - began
    return total


async def _client(endpoint: Path, calls: int, requests: Iterator[Request]) -> Tally:
    tally = Tally()
    reader, writer = await asyncio.open_unix_connection(os.fspath(endpoint), limit=READ_BYTES)
    try:
        for number in range(calls):
            method, params = next(requests)
            began = time.monotonic()
            await _ask(reader, writer, number, method, params, tally)
            tally.milliseconds.append((time.monotonic() - began) * 1_000)
    except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
        tally.errors.append(f"{type(error).__name__} {error}")
    finally:
        writer.close()
    return tally


async def _ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    number: int,
    method: str,
    params: dict[str, Any],
    tally: Tally,
) -> None:
    """One call, made again after the wait it is told where the daemon is busy."""
    line = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n"
    while True:
        writer.write(line)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            answer = orjson.loads(await reader.readuntil(b"\n"))
        data = answer.get("error", {}).get("data", {})
        if data.get("kind") != "busy":
            break
        tally.busy += 1
        await asyncio.sleep(data.get("retry_after_ms", 250) / 1_000)
    if answer.get("id") != number or "result" not in answer:
        tally.errors.append(f"{method}: {answer.get('error')}")
    elif method == "recall" and not answer["result"]["bundles"]:
        tally.errors.append("a recall found nothing")
