"""Measurements: how fast, how large, against which peers. Every line is a ratio of one interleaved run."""
