"""Readers of foreign data: recorded diagnoses and foreign suites."""
