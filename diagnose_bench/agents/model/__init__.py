"""Our own loop around a model's server: client, history, tools, turns, prices."""
