"""The composition root: builds every part, starts them in order, and stops them in reverse."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon import log, systemd
from wikid_daemon.archiving import Archiving
from wikid_daemon.calls import Face
from wikid_daemon.configuration import Configuration
from wikid_daemon.correcting import Corrections
from wikid_daemon.doctor import Doctor
from wikid_daemon.event_calls import EventCalls
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.feedback import Feedback
from wikid_daemon.handlers import Handlers
from wikid_daemon.idling import Idling
from wikid_daemon.index import jvm, jvm_archive
from wikid_daemon.indexer import Indexer
from wikid_daemon.instance import Instance
from wikid_daemon.lanes import Lane
from wikid_daemon.linting import Linting
from wikid_daemon.metrics import Meter
from wikid_daemon.model_calls import ModelCalls
from wikid_daemon.monitoring import Monitoring, Openings
from wikid_daemon.noting import Noting
from wikid_daemon.politeness import Power
from wikid_daemon.rebuilding import Rebuilding
from wikid_daemon.recall import Recaller
from wikid_daemon.resolving import Resolving
from wikid_daemon.searching import Models
from wikid_daemon.server import Server
from wikid_daemon.settings_files import Effective, SettingsFiles
from wikid_daemon.standings import Standings
from wikid_daemon.subscriptions import Subscriptions, VaultLook
from wikid_daemon.vault.registry import Registry
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Vaults
from wikid_daemon.warm import WarmEmbedder
from wikid_daemon.warm_reranker import WarmReranker
from wikid_protocol import __version__
from wikid_protocol.endpoint import Folders

LOG_VARIABLE: Final = "WIKID_LOG"


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
    files = SettingsFiles(settings.folders.config, settings.environment)
    chosen = files.settings_for(None).settings
    environment, cache = settings.environment, settings.folders.cache
    reranker = WarmReranker(environment, cache, configured=chosen.rerank_model, embedder=chosen.embed_model)
    lane = Lane(Power(lambda: files.settings_for(None).settings.low_power).is_saved)
    embedder = WarmEmbedder(environment, cache, chosen.embed_model, lambda: _with_embedder(vaults, reranker), lane)

    def published(indexer: Indexer) -> None:
        _published(indexer)
        if indexer.embedding_pending:
            embedder.want()
        subscriptions.stir()

    def make_indexer(vault: Vault, machine: str) -> Indexer:
        return Indexer(vault, machine, embedder.current, published, jvm.detach)

    vaults = Vaults(
        Registry(settings.folders.config / "vaults.json"), settings.folders.state, make_indexer, settings.environment
    )

    def settings_at(folder: Path) -> Effective:
        return vaults.seen(folder, partial(files.settings_for, folder))[1]

    logs = EventLogs(settings.folders.state)
    standings = Standings(vaults.all, logs)
    feedback = Feedback(
        vaults.all, logs, standings, Corrections(vaults).save, reranker=lambda: reranker.record().identity
    )
    models = ModelCalls(embedder, reranker, files, vaults, environment, cache)
    look = VaultLook(vaults)
    subscriptions = Subscriptions(look, look.find)
    handlers = Handlers(
        vaults,
        Recaller(
            lambda: Models(embedder.for_recall(), reranker.for_recall()), feedback=standings.adjustment, lane=lane
        ),
        embedder,
        reranker,
        started,
        settings.endpoint,
        files.settings_for,
        feedback,
        {
            **Configuration(files, settings_at).methods(),
            **models.methods(),
            **EventCalls(vaults, logs).methods(),
            **Doctor(
                vaults,
                logs,
                lambda: (*embedder.records(), reranker.record()),
                files,
                settings.folders,
                settings.endpoint,
            ).methods(),
            **Noting(vaults, logs).methods(),
            **Resolving(vaults, logs).methods(),
        },
        subscriptions.methods(),
        {
            **models.long_methods(),
            **Linting(vaults, logs).long_methods(),
            **Rebuilding(vaults, logs, standings.refresh).long_methods(),
        },
    )
    meter = Meter()
    openings = Openings(lambda: server.calls_in_flight, lambda: server.connections, lambda: subscriptions.count)
    monitoring = Monitoring(handlers.report, meter, openings, lambda: server.draining)
    server = Server(handlers, instance, face=Face(monitoring.health, monitoring.metrics), meter=meter)
    handlers.connections = lambda: server.connections
    watchdog = asyncio.create_task(systemd.feed_watchdog())
    jvm_archive.use(cache)
    archiving = Archiving(cache)
    archiving.start()
    idling = asyncio.create_task(
        Idling(embedder, reranker, lambda: files.settings_for(None).settings.unload_after_minutes).watch()
    )

    def ready() -> None:
        # answering comes first: vaults and model open behind the socket, and say so while they do
        vaults.start()
        embedder.start()
        feedback.start()
        systemd.notify("READY=1")

    try:
        await server.serve(ready)
    finally:
        systemd.notify("STOPPING=1")
        watchdog.cancel()
        idling.cancel()
        subscriptions.close()
        handlers.close()
        await asyncio.to_thread(archiving.stop)
        await asyncio.to_thread(feedback.close)
        await asyncio.to_thread(vaults.close)
        events.info("stopped")


def _with_embedder(vaults: Vaults, reranker: WarmReranker) -> None:
    """What an embedder that has just become warm means to the others: pages to embed, and its own token vectors."""
    for indexer in vaults.all():
        indexer.wake()
    reranker.start()


def _published(indexer: Indexer) -> None:
    store = indexer.store
    if store is not None:
        structlog.get_logger("index").debug("published", vault_id=indexer.vault.vault_id, generation=store.generation)


def configure_log(settings: Settings, *, console: bool) -> None:
    verbose = settings.environment.get(LOG_VARIABLE, "").strip().lower() == "debug"
    log.configure(settings.folders.state, console=console, verbose=verbose)
