"""`config/get` and `config/set`: the table of settings, what applies to a folder, and one change of the user's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wikid_daemon.calls import absolute
from wikid_daemon.core.names import printable
from wikid_daemon.core.settings import BY_NAME, TABLE, Decided, Setting
from wikid_daemon.settings_files import Effective, SettingsFiles
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused


class Configuration:
    """Answers for the settings of this user; `settings_at` gives those that apply to a folder. RequestRefused for a key
    that is none and a value that its key lacks."""

    def __init__(self, files: SettingsFiles, settings_at: Callable[[Path], Effective]) -> None:
        self._files = files
        self._settings_at = settings_at

    def methods(self) -> Mapping[str, Callable[[Any], object]]:
        """The methods of the protocol that are answered here."""
        return {"config/get": self.get, "config/set": self.set}

    def get(self, params: m.ConfigGetParams) -> r.Configuration:
        """One setting, or all of them, as they apply to a request from the folder."""
        wanted = TABLE if params.key is None else (_setting(params.key),)
        return self._report(wanted, None if params.cwd is None else absolute(params.cwd))

    def set(self, params: m.ConfigSetParams) -> r.Configuration:
        """Set the key in the user's file, or remove it where no value is given; then what applies outside projects."""
        setting = _setting(params.key)
        value = None if params.value is None else setting.read_typed(params.value)
        if value is None and params.value is not None:
            raise RequestRefused("invalid_params", f"{setting.name} must be {setting.expects}", hint=setting.meaning)
        self._files.write(setting, value)
        return self._report((setting,), None)

    def _report(self, wanted: tuple[Setting, ...], cwd: Path | None) -> r.Configuration:
        effective = self._files.settings_for(None) if cwd is None else self._settings_at(cwd)
        return r.Configuration(
            path=printable(str(self._files.path)),
            settings=tuple(_record(each) for each in effective.decided if each.setting in wanted),
            diagnostics=effective.diagnostics,
        )


def _setting(key: str) -> Setting:
    try:
        return BY_NAME[key]
    except KeyError:
        hint = "settings: " + ", ".join(BY_NAME)
        raise RequestRefused("invalid_params", "there is no such setting", hint=hint) from None


def _record(decided: Decided) -> r.SettingRecord:
    setting = decided.setting
    return r.SettingRecord(
        key=setting.name,
        value=decided.value,
        default=decided.default,
        origin=decided.origin,
        source=printable(decided.source),
        valid=not decided.is_invalid,
        expects=setting.expects,
        meaning=setting.meaning,
        at_start=setting.at_start,
    )
