"""The composition root: builds every part, starts them in order, and stops them in reverse."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from wikid_daemon import log, systemd
from wikid_daemon.handlers import Handlers
from wikid_daemon.index import jvm
from wikid_daemon.indexer import Indexer
from wikid_daemon.instance import Instance
from wikid_daemon.recall import Recaller
from wikid_daemon.server import Server
from wikid_daemon.vault.registry import Registry
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Vaults
from wikid_daemon.warm import WarmEmbedder
from wikid_protocol import __version__
from wikid_protocol.endpoint import Folders


@dataclass(frozen=True, slots=True)
class Settings:
    """Where this daemon listens and keeps things."""

    endpoint: Path
    folders: Folders
    environment: Mapping[str, str]


def run(settings: Settings, instance: Instance) -> None:
    """Serve until told to stop."""
    asyncio.run(_serve(settings, instance))


async def _serve(settings: Settings, instance: Instance) -> None:
    started = datetime.now(UTC)
    events = structlog.get_logger("app")
    events.info("starting", version=__version__, pid=os.getpid())
    embedder = WarmEmbedder(settings.environment, settings.folders.cache, lambda: _wake(vaults))

    def make_indexer(vault: Vault, machine: str) -> Indexer:
        return Indexer(vault, machine, embedder.current, _published, jvm.detach)

    vaults = Vaults(
        Registry(settings.folders.config / "vaults.json"), settings.folders.state, make_indexer, settings.environment
    )
    handlers = Handlers(vaults, Recaller(embedder.for_recall), embedder, started, settings.endpoint)
    server = Server(handlers, instance)
    handlers.connections = lambda: server.connections
    watchdog = asyncio.create_task(systemd.feed_watchdog())

    def ready() -> None:
        # answering comes first: vaults and model open behind the socket, and say so while they do
        vaults.start()
        embedder.start()
        systemd.notify("READY=1")

    try:
        await server.serve(ready)
    finally:
        systemd.notify("STOPPING=1")
        watchdog.cancel()
        handlers.close()
        await asyncio.to_thread(vaults.close)
        events.info("stopped")


def _wake(vaults: Vaults) -> None:
    for indexer in vaults.all():
        indexer.wake()


def _published(indexer: Indexer) -> None:
    store = indexer.store
    if store is not None:
        structlog.get_logger("index").debug("published", vault_id=indexer.vault.vault_id, generation=store.generation)


def configure_log(settings: Settings, *, console: bool) -> None:
    log.configure(settings.folders.state, console=console)
