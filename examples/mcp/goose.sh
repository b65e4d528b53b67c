#!/bin/bash
# Goose as an agent, with a configuration of its own for each trial. GOOSE_PROVIDER, GOOSE_MODEL and the provider's
# key come from the environment.
export GOOSE_PATH_ROOT=$PWD/goose GOOSE_MODE=auto GOOSE_DISABLE_KEYRING=1
mkdir -p "$GOOSE_PATH_ROOT/config"
cat > "$GOOSE_PATH_ROOT/config/config.yaml" << END
extensions:
  diagnose-bench:
    type: stdio
    name: diagnose-bench
    enabled: true
    cmd: "$DIAGNOSE_BENCH_MCP_STDIO"
    args: []
    envs: {}
    env_keys: []
    timeout: 150
END
exec goose run --no-session --quiet --instructions "$DIAGNOSE_BENCH_TASK"
