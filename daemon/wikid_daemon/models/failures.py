"""What can go wrong with a model folder, each with a sentence that says what to do next."""

from __future__ import annotations

from enum import StrEnum


class BuildFailure(StrEnum):
    """Why a build stopped; stable names for callers that branch."""

    UNKNOWN_MODEL = "unknown_model"
    NO_INSTALLER = "no_installer"
    NO_NETWORK = "no_network"
    PACKAGE_NOT_FOUND = "package_not_found"
    INSTALLER_FAILED = "installer_failed"
    CHECKSUM_WRONG = "checksum_wrong"
    DISK_FULL = "disk_full"
    NOT_WRITABLE = "not_writable"
    CONVERSION_FAILED = "conversion_failed"
    CANCELLED = "cancelled"
    NO_HUB_CLIENT = "no_hub_client"
    OFFLINE = "offline"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_ALLOWED = "not_allowed"
    NO_GRAPH = "no_graph"
    HUB_FAILED = "hub_failed"


class ModelBuildFailed(Exception):
    """A model was not built; the cache is as it was before. ``hint`` is a remedy for a person."""

    def __init__(self, kind: BuildFailure, reason: str, hint: str) -> None:
        super().__init__(f"{reason} {hint}")
        self.kind = kind
        self.reason = reason
        self.hint = hint


class ModelUnusable(Exception):
    """A model folder is there, or was asked for by path, and cannot be used as it is."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason} {hint}")
        self.reason = reason
        self.hint = hint
