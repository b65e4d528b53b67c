"""Reconstruct the observable state of an incident as a frozen snapshot."""
