#!/bin/bash
# Codex as an agent, with a configuration of its own for each trial. Its key is CODEX_API_KEY, or its login is copied.
login=${CODEX_HOME:-$HOME/.codex}/auth.json
export CODEX_HOME=$PWD/codex
mkdir -p "$CODEX_HOME"
[ -f "$login" ] && cp "$login" "$CODEX_HOME/"
cat > "$CODEX_HOME/config.toml" << END
[mcp_servers.diagnose-bench]
url = "$DIAGNOSE_BENCH_MCP_URL"
bearer_token_env_var = "DIAGNOSE_BENCH_MCP_TOKEN"
tool_timeout_sec = 150
default_tools_approval_mode = "approve"
END
exec codex exec --skip-git-repo-check --sandbox read-only - < "$DIAGNOSE_BENCH_TASK"
