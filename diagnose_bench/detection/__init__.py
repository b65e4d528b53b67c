"""Watches one trial for attempts to get at what is not evidence. Knows no truth; refuses nothing itself."""
