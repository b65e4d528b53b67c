"""Does a truth hold: scores of known answers, evidence that matches, and nothing of it in the snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from diagnose_bench.entity import parse_canonical
from diagnose_bench.ground_truth import GroundTruth
from diagnose_bench.ground_truth_models import Group
from diagnose_bench.lint_files import SnapshotFiles
from diagnose_bench.lint_finding import LintFinding, judge
from diagnose_bench.lint_leaks import check_leaks
from diagnose_bench.outcome import Profile
from diagnose_bench.resolver import EntityClass, ResolvedDiagnosis, Resolver

MIN_POINTERS = 2


def check_truth(scenario_id: str, truth: GroundTruth, files: SnapshotFiles) -> list[LintFinding]:
    """Known answers, victims and decoys, evidence, leaks."""
    resolver = Resolver(truth, files.inventory)
    return [
        _answers(scenario_id, truth, files, resolver),
        _bystanders(scenario_id, truth, files, resolver),
        _evidence(scenario_id, truth, files),
        check_leaks(scenario_id, truth, files.folder),
    ]


def score_of(resolver: Resolver, submitted: Sequence[str]) -> float:
    """Precision at full recall of an answer, under ``itbench-aa``."""
    import numpy as np

    from scoring import TrialBatch, score_trials

    codes = resolver.resolve(submitted, Profile.ITBENCH_AA).codes
    batch = TrialBatch(
        np.array(codes, dtype=np.int64),
        np.array([0, len(codes)], dtype=np.int64),
        np.array([resolver.n_root_causes], dtype=np.int64),
        np.array([True]),
    )
    return float(score_trials(batch).precision_at_full_recall[0])


def true_answer(truth: GroundTruth, files: SnapshotFiles, resolver: Resolver) -> list[str]:
    """One entity for each root-cause set, as an agent would name it."""
    answer: dict[int, str] = {}
    for group in truth.root_groups:
        for name in _names(group, files):
            resolved = _alone(resolver, name)
            if resolved.entities[0].class_ is EntityClass.ROOT_CAUSE:
                answer.setdefault(resolved.codes[0], name)
                break
    return list(answer.values())


def _alone(resolver: Resolver, name: str) -> ResolvedDiagnosis:
    return resolver.resolve([name], Profile.ITBENCH_AA)


def _names(group: Group, files: SnapshotFiles) -> Iterator[str]:
    yield from group.entities
    space = f"{group.namespace}/" if group.namespace else ""
    for name in group.names:
        yield f"{space}{group.kind}/{name}"
    if group.filters:
        yield from (str(entity) for entity in sorted(files.inventory.entities) if entity.kind == group.kind)


def _answers(scenario_id: str, truth: GroundTruth, files: SnapshotFiles, resolver: Resolver) -> LintFinding:
    answer = true_answer(truth, files, resolver)
    expected_empty = 1.0 if truth.no_fault else 0.0
    problems = []
    if (score := score_of(resolver, answer)) != 1.0:
        problems.append(f"the true answer {answer} scores {score:g}")
    if (score := score_of(resolver, [])) != expected_empty:
        problems.append(f"the empty answer scores {score:g}, not {expected_empty:g}")
    arbitrary = _arbitrary(files, resolver)
    if arbitrary is None:
        problems.append("the inventory has no entity outside the truth")
    elif (score := score_of(resolver, [arbitrary])) != 0.0:
        problems.append(f"the arbitrary answer {arbitrary} scores {score:g}")
    fine = f"{answer or 'nothing'} scores 1, nothing {expected_empty:g}, {arbitrary} 0"
    return judge(scenario_id, "answers", problems, fine)


def _arbitrary(files: SnapshotFiles, resolver: Resolver) -> str | None:
    for entity in sorted(files.inventory.entities):
        if _alone(resolver, str(entity)).entities[0].class_ is EntityClass.UNRELATED:
            return str(entity)
    return None


def _bystanders(
    scenario_id: str, truth: GroundTruth, files: SnapshotFiles, resolver: Resolver
) -> LintFinding:
    roots = {group.id for group in truth.root_groups}
    accepted = {member for aliases in truth.aliases if roots & set(aliases) for member in aliases}
    names = [name for group in truth.groups if group.id not in roots | accepted for name in group.entities]
    names += [decoy.entity for decoy in truth.decoys]
    if not names:
        return LintFinding(scenario_id, "bystanders", None, "the truth lists no victims and no decoys")
    problems = []
    for name in names:
        resolved = _alone(resolver, name).entities[0]
        if resolved.class_ is EntityClass.ROOT_CAUSE:
            problems.append(f"{name} is a victim or decoy and counts as a root cause")
        elif files.inventory.as_known(parse_canonical(name)) not in files.inventory:
            problems.append(f"{name} is not in the snapshot")
    return judge(scenario_id, "bystanders", problems, f"{len(names)} victims and decoys score 0")


def _evidence(scenario_id: str, truth: GroundTruth, files: SnapshotFiles) -> LintFinding:
    if truth.format != "native":
        return LintFinding(scenario_id, "evidence", None, f"truths of form {truth.format} carry no evidence")
    if truth.no_fault and not truth.evidence:
        return LintFinding(scenario_id, "evidence", None, "nothing is wrong, so nothing points at a cause")
    problems = []
    pointers: dict[str, set[tuple[str, str]]] = {group.id: set() for group in truth.root_groups}
    for item in truth.evidence:
        if not files.has(item.file):
            problems.append(f"{item.group}: no file {item.file!r} in the snapshot")
            continue
        try:
            pattern = re.compile(item.query)
        except re.error as error:
            problems.append(f"{item.group}: {item.query!r} is no regular expression: {error}")
            continue
        if not item.query or not any(pattern.search(line) for line in files.lines(item.file)):
            problems.append(f"{item.group}: nothing in {item.file} matches {item.query!r}")
            continue
        pointers.get(item.group, set()).add((item.file, item.query))
    for group_id, found in pointers.items():
        if len(found) < MIN_POINTERS:
            problems.append(f"{group_id}: {len(found)} matching pointers, fewer than {MIN_POINTERS}")
    n_pointers = sum(len(found) for found in pointers.values())
    return judge(
        scenario_id, "evidence", problems, f"{n_pointers} pointers to {len(pointers)} root causes match"
    )
