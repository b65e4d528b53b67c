#!/bin/bash
# Claude Code as an agent: no tools of its own, only the trial's. Its key comes from the environment or its login.
export MCP_TOOL_TIMEOUT=150000
tools=mcp__diagnose-bench__run_command,mcp__diagnose-bench__read_file,mcp__diagnose-bench__submit_diagnosis
exec claude --print --tools "" --strict-mcp-config --mcp-config "$DIAGNOSE_BENCH_MCP_CONFIG" \
    --allowedTools "$tools" < "$DIAGNOSE_BENCH_TASK"
