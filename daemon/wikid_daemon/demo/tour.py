"""The tour, step by step, as it is told on the screen."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wikid_client.caller import OnProgress, Progress
from wikid_client.client import Client
from wikid_client.layout.notes import elapsed, size
from wikid_client.layout.recall import recall
from wikid_client.layout.spans import Span, row
from wikid_client.progress import shown
from wikid_client.text import count
from wikid_daemon.demo import saving
from wikid_daemon.demo.interrupts import Interrupts
from wikid_daemon.demo.model import Prepared, prepare
from wikid_daemon.demo.sandbox import DemoFailed, Sandbox
from wikid_daemon.demo.screen import Screen, short
from wikid_daemon.models.failures import ModelBuildFailed, ModelUnusable
from wikid_protocol.records import StatusReport, VaultId, VaultStatus

VAULT_NAME: Final = "notes"

DEFAULT_MOST: Final = 5  # of the command

_INDEX_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Question:
    """A recall of the tour: what it is to show, the query, and the memories asked for at most."""

    about: str
    query: str
    most: int = DEFAULT_MOST


QUESTIONS: Final = (
    Question("Ask for what is known: the conclusion, and what it rests on", "raising autovacuum workers", 1),
    Question("Ask about something the notes disagree on", "pgbouncer prepared statements", 1),
    Question("Ask about something the notes do not cover", "sourdough bread starter"),
)


def tour(sandbox: Sandbox, screen: Screen, interrupts: Interrupts) -> None:
    """All of it. DemoFailed, a WikidError, OSError; KeyboardInterrupt at any line that `interrupts` allows."""
    screen.show([row(Span("wikid demo", "title"))])
    screen.say(
        f"A private daemon on a copy of a small sample vault. All of it is in {sandbox.folder}; "
        "your own notes, settings and daemon are left alone.",
        "dim",
    )
    model = _model(screen)
    with Client(endpoint=sandbox.endpoint, start=False) as client:
        _serve(sandbox, screen, client, interrupts)
        vault_id = _index(sandbox, screen, client, with_model=model is not None)
        for question in QUESTIONS:
            screen.step(question.about)
            _ask(sandbox, screen, client, question)
        _save(sandbox, screen, client, vault_id, with_model=model is not None)


def _model(screen: Screen) -> Prepared | None:
    screen.step("The model that finds notes by meaning")
    screen.command("wikid models build")
    started = time.monotonic()
    try:
        with shown(screen.console, "Building the model") as progress:
            found = prepare(progress)
    except (ModelBuildFailed, ModelUnusable) as problem:
        screen.say(f"There is no model. {problem.reason}", "warn")
        screen.say(problem.hint, "dim")
        screen.say("The demo goes on without it: notes are found by their words alone.", "warn")
        return None
    place, much = short(found.folder.path), size(found.size)
    if found.built:
        took = elapsed((time.monotonic() - started) * 1_000)
        screen.say(f"{found.folder.name} is built in {took}. Kept for next time: {much} in {place}", "good")
    else:
        screen.say(f"{found.folder.name} is already there: {much} in {place}", "good")
    return found


def _serve(sandbox: Sandbox, screen: Screen, client: Client, interrupts: Interrupts) -> None:
    screen.step("A daemon, and a vault to remember")
    screen.command("wikid start")
    started = time.monotonic()
    sandbox.fill()
    with interrupts.held():
        sandbox.start_daemon()
    pid = sandbox.wait_for_daemon(client)
    screen.say(f"pid {pid} answers after {elapsed((time.monotonic() - started) * 1_000)}", "good")


def _index(sandbox: Sandbox, screen: Screen, client: Client, *, with_model: bool) -> VaultId:
    screen.command(f"wikid vault add {sandbox.notes.name} --name {VAULT_NAME}")
    started = time.monotonic()
    vault_id = client.vault_add(str(sandbox.notes), name=VAULT_NAME).vault_id
    with shown(screen.console, "Indexing") as progress:
        vault = _indexed(client, vault_id, progress, with_model=with_model)
    made = f"{count(vault.pages, 'page')} in {count(vault.chunks, 'chunk')}, {vault.embedded:,} of them with a vector"
    screen.say(f"{made}: searchable after {elapsed((time.monotonic() - started) * 1_000)}", "good")
    return vault_id


def _indexed(client: Client, vault_id: VaultId, progress: OnProgress, *, with_model: bool) -> VaultStatus:
    """Wait until every page is searchable and, while there is a model to do it, embedded."""
    give_up = time.monotonic() + _INDEX_SECONDS
    while True:
        report = client.status(vault=vault_id)
        vault = report.vaults[0]
        searchable = vault.state == "ready" and vault.pending == 0
        if searchable and (not with_model or saving.embedded(report) or _model_failed(report)):
            return vault
        if vault.state in ("failed", "unavailable", "blocked"):
            raise DemoFailed(f"the sample vault could not be indexed: it is {vault.state}", vault.reason)
        if time.monotonic() >= give_up:
            raise DemoFailed(f"the sample vault was not indexed within {_INDEX_SECONDS:.0f} s")
        progress(_step(vault, embedding=with_model))
        time.sleep(_POLL_SECONDS)


def _step(vault: VaultStatus, *, embedding: bool) -> Progress:
    if not (vault.chunks and embedding):
        return Progress("report", "Reading the notes")
    message = f"Embedding {count(vault.chunks, 'chunk')} of {count(vault.pages, 'page')}"
    return Progress("report", message, 100 * vault.embedded / vault.chunks)


def _model_failed(report: StatusReport) -> bool:
    return any(each.state == "failed" for each in report.models)


def _ask(sandbox: Sandbox, screen: Screen, client: Client, question: Question) -> None:
    most = "" if question.most == DEFAULT_MOST else f"-n {question.most} "
    screen.command(f'wikid recall {most}"{question.query}"')
    answer = client.recall(question.query, cwd=str(sandbox.folder), max_results=question.most)
    screen.show(recall(answer, question.query, screen.console.width))


def _save(sandbox: Sandbox, screen: Screen, client: Client, vault_id: VaultId, *, with_model: bool) -> None:
    screen.step("Save a note, and ask for it at once")
    text = saving.note(datetime.now().astimezone().date())
    screen.command(f"cat > {(sandbox.pages / saving.PAGE_ID).relative_to(sandbox.folder)}.md")
    screen.show([row(Span("│ ", "dim"), each) for each in text.splitlines()])
    saved = saving.save(sandbox, client, vault_id, text, with_model=with_model)
    screen.say(_found(saved), "good")
    _ask(sandbox, screen, client, Question("", saving.QUERY, 1))


def _found(saved: saving.Saved) -> str:
    words = f"Found by its words {saved.words_ms:.0f} ms after it was saved"
    if saved.vector_ms is None:
        return f"{words}; without a model it has no vector."
    return f"{words}; it had its vector after {saved.vector_ms:.0f} ms."
