"""``python -m diagnose_bench`` is the ``diagnose-bench`` command."""

from diagnose_bench.cli import main

if __name__ == "__main__":
    main()
