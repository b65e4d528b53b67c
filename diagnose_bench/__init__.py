"""Score incident-diagnosis agents on frozen Kubernetes incidents."""

__version__ = "0.1.0"
