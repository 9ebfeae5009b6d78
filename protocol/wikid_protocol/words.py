"""Stable words of answers and what they mean, for the contract in words. A test sees that the daemon says no others."""

from __future__ import annotations

from typing import Final

LACKS: Final[dict[str, str]] = {
    "deadline_short": "There was too little time for vectors, or for a second look.",
    "model_absent": "There is no embedding model: words alone answered.",
    "model_loading": "The embedding model is still loading, or is loaded again after a rest: words alone answered.",
    "model_failed": "The embedding model failed: words alone answered.",
    "vectors_missing": "No page has a vector yet: words alone answered.",
    "query_not_embedded": "The query could not be embedded: words alone answered.",
    "reranker_absent": "There is no reranker: the first look answered.",
    "reranker_loading": "The reranker is still loading: the first look answered.",
    "reranker_failed": "The reranker failed, or judged nothing in time: the first look answered.",
    "java_unavailable": "There is no Java, so words cannot be searched: meaning alone answered.",
}
"""What keeps a recall from the path that was asked for: both a diagnostic and a reason of the mode."""

MODE_REASONS: Final[dict[str, str]] = {
    "requested": "The call, or the settings, ask for this mode outright.",
    "certain": "`adaptive` was sure after its first look.",
    "narrow_margin": "`adaptive` looked again: the two best are close.",
    "lists_disagree": "`adaptive` looked again: words and meaning lead to other pages.",
    "question": "`adaptive` looked again: the query is a question.",
    "contradiction": "`adaptive` looked again: two of the best contradict each other.",
    **LACKS,
}

REASONS: Final[dict[str, str]] = {
    "no_reliable_memory": "Every vault was searched as far as it could be, and nothing reliable was found.",
    "vault_opening": "A vault is still being opened, so there may be more. Ask again after `index/sync`.",
    "vault_not_opened": "A vault could not be opened, so there may be more. `status` says why.",
}
"""Of a recall without bundles."""

DIAGNOSTICS: Final[dict[str, str]] = {
    **LACKS,
    "no_words": "The query holds nothing to search for.",
    "too_late": "An automatic recall took too long, so it gives nothing.",
    "uncalibrated": "Confidence was never fitted for this model, and is estimated.",
    "conflict_undecided": "Several decisions on one conflict stand at once.",
    "vault_opening": "The vault is still being opened, and was not looked through.",
    "vault_not_opened": "The vault could not be opened, and was not looked through.",
    "vault_unavailable": "The vault's folder is gone, empty or not answering: what was known of it answered.",
    "vault_blocked": "The vault's own files keep it from being served.",
    "indexing_interrupted": "Indexing rests, for instance because a disk is full: the last good index answered.",
    "registry_damaged": "An entry of the list of vaults cannot be read.",
    "config_unreadable": "A file of settings cannot be read.",
    "config_unknown_key": "A file of settings has a key that is not known.",
    "config_invalid_value": "A setting has a value that is not allowed; the default applies.",
    "environment_overrides": "A variable of the environment stands above what was set.",
    "event_not_written": "The note was written, the event that tells of it was not.",
    "catalog_rebuilt": "The catalog was damaged and is made anew.",
    "lexical_rebuilt": "The index of words is made anew.",
    "vectors_rebuilt": "Another model is in use: all vectors are made anew.",
    "pages_read_again": "Another version indexed the pages: all are read again.",
    "rebuild_undone": "A new index was not whole: the one before it answers.",
}
"""Of `diagnostics`, of `warnings` and of `rebuilt`."""
