"""A vault asked for answers: by recall itself, and by its parts where one of them is to be left out or moved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from wikid_daemon.assembly import Assembly, Policy
from wikid_daemon.bench.indexing import Indexed
from wikid_daemon.bench.rankers import call_for
from wikid_daemon.core import query as q
from wikid_daemon.core import settings
from wikid_daemon.core.modes import Mode
from wikid_daemon.core.packing import AUTOMATIC_BUNDLES
from wikid_daemon.merging import merge
from wikid_daemon.recall import Recaller, reliable
from wikid_daemon.retrieval import Question
from wikid_daemon.searching import Looked, Models, search
from wikid_daemon.settings_files import Effective
from wikid_protocol import records as r
from wikid_protocol.methods import RecallParams

RESULTS: Final = 5  # of an explicit recall that names no number


class Asking:
    """One vault and the models, asked as the daemon would ask them with nothing configured."""

    def __init__(self, vault: Indexed, models: Models) -> None:
        self._vault = vault
        self._models = models
        self._recaller = Recaller(lambda: models)
        decided, _ = settings.decide([settings.defaults("pi")])
        self._effective = Effective(settings.settings_of(decided), decided, ())

    def explicit(self, text: str, mode: Mode) -> r.Recall:
        """What a person who asks is given."""
        return self._recall(RecallParams(query=text, mode=mode, max_results=RESULTS))

    def automatic(self, text: str) -> r.Recall:
        """What is put before an agent's turn."""
        return self._recall(RecallParams(query=text, policy="automatic"))

    def _recall(self, params: RecallParams) -> r.Recall:
        return self._recaller.recall(params, [self._vault.applied], self._effective, lambda: False)

    def unhurried(self, text: str, mode: Mode, policy: Policy, *, related: bool = True) -> tuple[r.Bundle, ...]:
        """The bundles of an answer by another policy, or without what the relations add."""
        return self.looked(text, mode).bundles(policy, related=related)

    def looked(self, text: str, mode: Mode) -> Found:
        """What is found, before any floor, however long it takes."""
        call = call_for(text, mode, self._vault)
        if not q.has_words(call.question.text):
            return Found(call.question, None)
        (looked,) = search(call, self._vault.asked, self._models)
        return Found(call.question, looked)

    def policy(self, floor: float, *, automatic: bool) -> Policy:
        limit = AUTOMATIC_BUNDLES if automatic else RESULTS
        return Policy(automatic, limit, floor, self._effective.settings.recall_skill_inline_max)


@dataclass(frozen=True, slots=True)
class Found:
    """What one question found in the vault; nothing where it held no words."""

    question: Question
    looked: Looked | None

    def bundles(self, policy: Policy, *, related: bool = True) -> tuple[r.Bundle, ...]:
        """The answer that this makes by the policy."""
        if self.looked is None:
            return ()
        searched = [reliable(self.looked, self.question, policy)]
        now = datetime.now(UTC)
        assembly = Assembly(now, self.question, searched, merge(searched, now), policy, related=related)
        return assembly.assemble()[0]
