#!/usr/bin/env bash
# An agent in bash: it blames the object that most of the warning events are about.
#
#   diagnose-bench run --agent examples/agent.sh
#
# It runs outside the sandbox, in a private folder. Evidence is reached only through "$DIAGNOSE_BENCH_SHELL".
set -euo pipefail

sandbox() { "$DIAGNOSE_BENCH_SHELL" -c "$1"; }

# "" where a key is absent; keys and values as they stand in the JSON line of an event.
value() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" <<<"$2"; }

# The task says which incident this is, what lies where, and how to answer.
sed -n 's/^- The incident was detected at /detected at /p' "$DIAGNOSE_BENCH_TASK" >&2

object=$(sandbox '
  if [ -f /snapshot/events.jsonl ]; then
    grep "\"type\": *\"Warning\"" /snapshot/events.jsonl |
      grep -o "\"involvedObject\": *{[^}]*}" | sed "s/\"uid\": *\"[^\"]*\"//" |
      sort | uniq -c | sort -k1,1nr | head -n 1
  fi')

if [ -z "$object" ]; then
  echo '{"root_causes": []}' | "$DIAGNOSE_BENCH_SUBMIT"
  exit
fi
entity="$(value kind "$object")/$(value name "$object")"
namespace=$(value namespace "$object")
printf '{"root_causes": [{"entity": "%s", "reasoning": "it has the most warning events"}]}' \
  "${namespace:+$namespace/}$entity" | "$DIAGNOSE_BENCH_SUBMIT"
