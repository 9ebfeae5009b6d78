"""`wikid completion`, and the answers that the shell's completion asks for while a person types.

Loaded for the one and the other alone: a command that is only run pays nothing for it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NoReturn, get_args

from wikid_client.client import Client
from wikid_client.commands.calling import folder, show
from wikid_client.commands.pages import page_name
from wikid_client.commands.parser import CommandParser
from wikid_client.console import Console
from wikid_client.layout.spans import row
from wikid_protocol.curation import PageType
from wikid_protocol.errors import RequestRefused, WikidError
from wikid_protocol.memories import Mode

PACKAGE: Final = "argcomplete"
SHELLS: Final = ("bash", "zsh", "fish")
ASK_SECONDS: Final = 1.0
MOST_PAGES: Final = 50

_LAYERS: Final = ("active", "personal", "project", "all")
_PATHS: Final = ("path", "cwd", "socket", "dir")
_PLACES: Final = {
    "bash": "~/.local/share/bash-completion/completions/wikid",
    "zsh": "a file _wikid in a folder of your $fpath",
    "fish": "~/.config/fish/completions/wikid.fish",
}

Answers = Iterable[str] | Mapping[str, str]


def configure_completion(parser: CommandParser) -> None:
    places = "; ".join(f"{shell}: {place}" for shell, place in _PLACES.items())
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"{', '.join(SHELLS)}. Save it as: {places}")
    parser.set_defaults(run=_completion)


def _completion(options: argparse.Namespace, console: Console) -> int:
    if find_spec(PACKAGE) is None:
        hint = "pip install 'wikid-memory[cli]'"
        raise RequestRefused("invalid_params", f"completion needs the package {PACKAGE}", hint=hint)
    # loaded here, because the answers to a shell need another part of it, and no other command needs any
    argcomplete: Any = import_module(PACKAGE)
    script: str = argcomplete.shellcode(["wikid"], shell=options.shell)
    record = {"shell": options.shell, "script": script}
    return show(options, console, record, lambda: [row(each) for each in script.rstrip("\n").split("\n")])


def answer(parser_of: Callable[[str | None], CommandParser], names: Collection[str]) -> NoReturn:
    """Answer the shell, as argcomplete's protocol says, and leave."""
    # a shell whose script outlived the package gets no answer, and no error between the letters either
    if find_spec(PACKAGE) is None:
        os._exit(1)
    argcomplete: Any = import_module(PACKAGE)
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    words = line.split()[1:] + ([""] if line[-1:].isspace() else [])
    parser = parser_of(next((each for each in words[:-1] if each in names), None))
    _attach(parser)
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=_nothing)
    os._exit(1)


def _attach(parser: argparse.ArgumentParser) -> None:
    """Give every argument whose values can be told what tells them."""
    for action in parser._actions:  # argparse has no public way to walk them, and argcomplete none but this
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _attach(sub)
        elif action.choices is None and action.nargs != 0:
            completer = _completer(parser.prog, action.dest)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]


def _completer(prog: str, dest: str) -> Callable[..., Answers] | None:
    if dest in _PATHS:
        completers: Any = import_module(f"{PACKAGE}.completers")
        found: Callable[..., Answers] = completers.FilesCompleter() if dest == "path" else _folders(completers)
        return found
    if dest == "mode":
        return _among(("personal", "company") if prog.endswith("vault init") else get_args(Mode))
    if dest == "name":
        return _vaults if " vault " in prog else _models if " models " in prog else None
    return _BY_NAME.get(dest)


def _folders(completers: Any) -> Callable[..., Answers]:
    found: Callable[..., Answers] = completers.DirectoriesCompleter()
    return found


def _among(values: Iterable[str]) -> Callable[..., Answers]:
    return lambda **_: tuple(values)


def _nothing(**_: object) -> Answers:
    """For words that only the person knows."""
    return ()


def _asking(ask: Callable[[Client, argparse.Namespace, str], Answers]) -> Callable[..., Answers]:
    """A completer that asks the daemon, where one runs: quickly, or not at all."""

    def complete(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Answers:
        endpoint = getattr(parsed_args, "socket", None)
        try:
            with Client(endpoint=endpoint, start=False, timeout=ASK_SECONDS) as client:
                return ask(client, parsed_args, prefix)
        except (WikidError, OSError):
            return ()

    return complete


def _vault_names(client: Client, _options: argparse.Namespace, _prefix: str) -> Answers:
    return {each.name: each.path for each in client.vault_list().vaults}


def _model_names(client: Client, _options: argparse.Namespace, _prefix: str) -> Answers:
    return {each.name: each.state for each in client.models_list().models if each.purpose == "embedder"}


def _setting_keys(client: Client, _options: argparse.Namespace, _prefix: str) -> Answers:
    return {each.key: each.meaning for each in client.config_get().settings}


def _setting_values(client: Client, options: argparse.Namespace, _prefix: str) -> Answers:
    if options.key == "retrievalMode":
        return tuple(get_args(Mode))
    found = client.config_get(options.key).settings
    return ("true", "false") if any(isinstance(each.default, bool) for each in found) else ()


def _page_ids(client: Client, options: argparse.Namespace, prefix: str) -> Answers:
    """Ids that begin with what is typed, with their vault where that is typed as well."""
    vault, page_id = page_name(prefix)
    if not page_id:
        return ()  # of all pages none is meant more than another
    wanted = vault or getattr(options, "vault", None)
    found = client.page_search(page_id, vault=wanted, cwd=folder(), limit=MOST_PAGES).matches
    return {f"{vault}:{each.page_id}" if vault else str(each.page_id): each.title for each in found}


_vaults: Final = _asking(_vault_names)
_models: Final = _asking(_model_names)
_pages: Final = _asking(_page_ids)


def _vaults_and_layers(**given: Any) -> Answers:
    named = _vaults(**given)
    return (*named, *(each for each in _LAYERS if each not in named))


_BY_NAME: Final[Mapping[str, Callable[..., Answers]]] = {
    "vault": _vaults_and_layers,
    "page": _pages,
    "selected": _pages,
    "other": _pages,
    "key": _asking(_setting_keys),
    "value": _asking(_setting_values),
    "type": _among(get_args(PageType)),
    "components": _among(("lexical", "vectors", "lexical,vectors")),
}
