"""A whole suite from a folder of specifications: snapshots here, truths there, suite.json last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import write_atomic
from diagnose_bench.reconstruct.engine import reconstruct, truth_bytes
from diagnose_bench.reconstruct.spec import load_specification
from diagnose_bench.snapshot import load_manifest, manifest_digest
from diagnose_bench.suite_digest import write_suite_file
from diagnose_bench.suite_file import SuiteEntry, SuiteFile, suite_digest_of

VERSION = "1"


def write_suite(specifications: Path, suite: Path, truths: Path, *, only: Sequence[str] = ()) -> str:
    """Write every scenario (or only some, the others staying as they are) and suite.json.

    Parameters
    ----------
    specifications : Path
        Folder of ``<scenario_id>.yaml``.
    suite, truths : Path
        ``snapshots/<suite>`` and ``ground_truth/<suite>``.
    only : sequence of str
        Ids of the scenarios to write.

    Returns
    -------
    str
        The suite's digest.

    Raises
    ------
    SuiteError
        A specification is wrong, or two have one canary.
    """
    paths = sorted(specifications.glob("*.yaml"))
    if not paths:
        raise SuiteError(f"{specifications}: no specifications (<scenario_id>.yaml) here.")
    specs = [load_specification(path) for path in paths]
    for path, spec in zip(paths, specs, strict=True):
        if path.stem != spec.scenario_id:
            raise SuiteError(f"{path}: $.scenario_id: {spec.scenario_id!r} is not the file's name.")
    if len({spec.canary for spec in specs}) != len(specs):
        raise SuiteError(f"{specifications}: two specifications have the same canary. Draw a new one.")
    unknown = sorted(set(only) - {spec.scenario_id for spec in specs})
    if unknown:
        raise SuiteError(f"{specifications}: no specification {unknown[0]!r}.")
    truths.mkdir(parents=True, exist_ok=True)
    entries = []
    for spec in specs:
        folder = suite / spec.scenario_id
        if not only or spec.scenario_id in only:
            reconstruct(spec, folder)
            write_atomic(truths / f"{spec.scenario_id}.yaml", truth_bytes(spec))
        entries.append(SuiteEntry(id=spec.scenario_id, digest=manifest_digest(load_manifest(folder))))
    file = SuiteFile(name=suite.name, version=VERSION, pass_score=1.0, scenarios=tuple(entries))
    write_suite_file(suite, file)
    return suite_digest_of(file)
