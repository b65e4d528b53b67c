#!/usr/bin/env python3
"""An MCP client as an agent, with the official SDK (pip install mcp): it asks what agent.py asks.

    diagnose-bench run --agent "mcp-client: python3 examples/mcp_agent.py"

With --stdio it starts the bridge $DIAGNOSE_BENCH_MCP_STDIO instead of calling $DIAGNOSE_BENCH_MCP_URL. A real
agent gives the tools to its model; this one knows what to ask.
"""

import asyncio
import json
import os
import sys

import httpx2
from agent import diagnose, question
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def client(http):
    if "--stdio" in sys.argv:
        return Client(StdioServerParameters(command=os.environ["DIAGNOSE_BENCH_MCP_STDIO"]))
    return Client(streamable_http_client(os.environ["DIAGNOSE_BENCH_MCP_URL"], http_client=http))


async def main():
    token = os.environ["DIAGNOSE_BENCH_MCP_TOKEN"]
    # A command may take two minutes.
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=150)
    async with http, client(http) as server:
        result = await server.call_tool("run_command", {"command": question(), "timeout_s": 60})
        output, _, ending = result.content[0].text.rpartition("\n[exit code ")
        if not ending.startswith("0]"):
            sys.exit(f"the command failed: {output[-500:]}")
        result = await server.call_tool("submit_diagnosis", diagnose(json.loads(output)))
        print(result.content[0].text, file=sys.stderr)
        sys.exit(1 if result.is_error else 0)


if __name__ == "__main__":
    asyncio.run(main())
