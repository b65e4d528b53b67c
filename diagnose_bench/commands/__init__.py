"""The commands, one module per concern: options -> one library call -> render -> exit code."""
