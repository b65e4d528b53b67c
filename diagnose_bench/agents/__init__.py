"""Agents: baselines, replay, and any program behind the command-line protocol."""
