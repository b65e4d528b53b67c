"""The suites as tasks of Inspect, with its models and its logs. Needs the extra ``inspect``.

``inspect eval diagnose_bench/incidents --model …`` runs them in our sandbox. The truth is read in the scorer
alone: neither the samples nor the sandbox nor the log have it.
"""
