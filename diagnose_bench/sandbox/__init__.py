"""Sandbox backends behind one contract."""
