"""The Windows task that starts the daemon when its user logs on, for `schtasks /Create /XML`. Pure."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

TASK: Final = "wikid"

_NAMESPACE: Final = "http://schemas.microsoft.com/windows/2004/02/mit/task"
_SETTINGS: Final = {
    "MultipleInstancesPolicy": "IgnoreNew",
    "DisallowStartIfOnBatteries": "false",
    "StopIfGoingOnBatteries": "false",
    "StartWhenAvailable": "true",
    "Hidden": "true",
    "ExecutionTimeLimit": "PT0S",
    "Priority": "7",
}
_RESTART: Final = {"Interval": "PT1M", "Count": "5"}


def logon_task(command: Sequence[str], user: str) -> str:
    """The task of `user` (`DOMAIN\\name`), with that user's rights and no more, started without a window."""
    task = ElementTree.Element("Task", {"version": "1.2", "xmlns": _NAMESPACE})
    about = ElementTree.SubElement(task, "RegistrationInfo")
    ElementTree.SubElement(about, "Description").text = "wikid, one memory over your Markdown vaults"
    trigger = ElementTree.SubElement(ElementTree.SubElement(task, "Triggers"), "LogonTrigger")
    ElementTree.SubElement(trigger, "Enabled").text = "true"
    ElementTree.SubElement(trigger, "UserId").text = user
    principal = ElementTree.SubElement(ElementTree.SubElement(task, "Principals"), "Principal", {"id": "Author"})
    _fill(principal, {"UserId": user, "LogonType": "InteractiveToken", "RunLevel": "LeastPrivilege"})
    settings = ElementTree.SubElement(task, "Settings")
    _fill(settings, _SETTINGS)
    _fill(ElementTree.SubElement(settings, "RestartOnFailure"), _RESTART)
    program = ElementTree.SubElement(ElementTree.SubElement(task, "Actions", {"Context": "Author"}), "Exec")
    _fill(program, {"Command": command[0], "Arguments": subprocess.list2cmdline(command[1:])})
    ElementTree.indent(task)
    return f'<?xml version="1.0" encoding="UTF-16"?>\n{ElementTree.tostring(task, encoding="unicode")}\n'


def command_of(text: str) -> list[str]:
    """The program of a task and its arguments as one; empty where there is none."""
    try:
        task = ElementTree.fromstring(text.partition("?>\n")[2])
    except ElementTree.ParseError:
        return []
    found = [task.findtext(f".//{{{_NAMESPACE}}}{name}") for name in ("Command", "Arguments")]
    return [each for each in found if each]


def _fill(element: ElementTree.Element, values: dict[str, str]) -> None:
    for name, value in values.items():
        ElementTree.SubElement(element, name).text = value
