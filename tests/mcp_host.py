"""`wikid mcp` as a host uses it: the official SDK's own client, over standard input and output."""

from __future__ import annotations

import concurrent.futures
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning

from daemon_process import WIKID

HANDSHAKE = "legacy"
ENVELOPE = "auto"


class Host:
    """One host with one server, whose standard error goes to the file `said`. `roots` are folders it has open."""

    def __init__(
        self,
        env: Mapping[str, str],
        said: Path,
        *arguments: str,
        cwd: Path | None = None,
        roots: tuple[Path, ...] = (),
        mode: str = HANDSHAKE,
    ) -> None:
        self.said = said
        self._server = StdioServerParameters(command=str(WIKID), args=["mcp", *arguments], env=dict(env), cwd=cwd)
        self._roots = roots
        self._mode: Any = mode
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._portal: BlockingPortal = self._open.enter_context(start_blocking_portal())
        log = self._open.enter_context(self.said.open("w"))
        transport = stdio_client(self._server, errlog=log)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # roots, which hosts of today still have
            client = Client(transport, list_roots_callback=self._list_roots if self._roots else None, mode=self._mode)
            self.client = self._open.enter_context(self._portal.wrap_async_context_manager(client))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    async def _list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        assert context is not None
        return types.ListRootsResult(roots=[types.Root(uri=each.as_uri()) for each in self._roots])  # type: ignore[arg-type]

    def tools(self) -> dict[str, types.Tool]:
        return {each.name: each for each in self._portal.call(self.client.list_tools).tools}

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> types.CallToolResult:
        found: types.CallToolResult = self._portal.call(self.client.call_tool, tool, arguments or {})
        return found

    def content(self, tool: str, **arguments: Any) -> Any:
        """The structured content of a call that must succeed."""
        found = self.call(tool, arguments)
        assert not found.is_error, text_of(found)
        return found.structured_content

    def start(
        self,
        tool: str,
        arguments: dict[str, Any],
        steps: Callable[[float, float | None, str | None], None] | None = None,
    ) -> concurrent.futures.Future[types.CallToolResult]:
        """A call that goes on in the background; cancelling it cancels the call. `steps` is told of its progress."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            assert steps is not None
            steps(progress, total, message)

        async def called() -> types.CallToolResult:
            return await self.client.call_tool(tool, arguments, progress_callback=told if steps else None)

        return self._portal.start_task_soon(called)


def text_of(found: types.CallToolResult) -> str:
    """What a model reads of a result."""
    (block,) = found.content
    assert isinstance(block, types.TextContent)
    return block.text
