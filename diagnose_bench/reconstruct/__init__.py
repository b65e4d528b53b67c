"""Reconstruct the observable state of an incident as a frozen snapshot.

One specification (``spec``, ``spec_workload``) becomes a cluster (``world``, ``pods``, ``admission``,
``platform``), whose request flow is simulated (``flow``). Everything an observer sees is drawn from that one
flow: single requests (``requests``), metrics, traces, logs, Events, manifests, topology, and alerts that
follow from rules (``promql``, ``alerts``). ``engine`` writes one snapshot, ``suite`` a whole suite.

The same specification gives the same bytes. The truth inside a specification is copied, never read.
"""
