"""Simulations that check the statistics of `scoring`; minutes of work, so no part of the tests."""
