"""Where a snapshot says what only the truth should know: file and line. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.ground_truth import GroundTruth, load_truths
from diagnose_bench.lint_finding import LintFinding, judge
from diagnose_bench.snapshot_tree import list_files
from diagnose_bench.suite import Scenario, Suite
from diagnose_bench.truth_terms import truth_only_strings

MAX_PLACES = 20
"""Of one word in one file; the rest is counted."""
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Leak:
    """One place.

    Attributes
    ----------
    path : str
        The file, relative to the snapshot.
    line : int or None
        From 1; None where the file's own name holds the word.
    word : str
        As the truth has it.
    n_more : int
        Further places of the same word in the file that are not listed.
    """

    path: str
    line: int | None
    word: str
    n_more: int = 0

    def text(self) -> str:
        """For a person."""
        if self.line is None:
            return f"the name {self.path!r} holds {self.word!r}"
        more = f" (and {self.n_more} more places)" if self.n_more else ""
        return f"{self.path}:{self.line} holds {self.word!r}{more}"


def lint_leaks(suite: Suite, truth_folder: Path) -> list[LintFinding]:
    """Search every snapshot of a suite; a finding for each place, or one that says there is none.

    Raises
    ------
    GroundTruthError
        The truths' folder or its patch file cannot be read.
    """
    truths = load_truths(truth_folder, [scenario.id for scenario in suite.scenarios])
    canaries = [loaded.truth.canary for loaded in truths.truths.values() if loaded.truth.canary]
    findings: list[LintFinding] = []
    for scenario in suite.scenarios:
        if (reason := truths.refused.get(scenario.id)) is not None:
            findings.append(LintFinding(scenario.id, "leaks", False, reason))
        else:
            findings += _findings(scenario, truths.truths[scenario.id].truth, canaries)
    return findings


def _findings(scenario: Scenario, truth: GroundTruth, canaries: Iterable[str]) -> list[LintFinding]:
    if scenario.snapshot is None:
        return [LintFinding(scenario.id, "leaks", None, "the suite is of truths alone")]
    words = [*truth_only_strings(truth), *canaries]
    try:
        leaks = [
            LintFinding(scenario.id, "leaks", False, leak.text())
            for leak in find_leaks(scenario.snapshot, words)
        ]
    except DiagnoseBenchError as error:
        return [LintFinding(scenario.id, "leaks", False, str(error))]
    return leaks or [_clean(scenario.id, words)]


def check_leaks(scenario_id: str, truth: GroundTruth, snapshot: Path) -> LintFinding:
    """One finding on one snapshot, for the whole list of checks."""
    words = truth_only_strings(truth)
    problems = [leak.text() for leak in find_leaks(snapshot, words)]
    return judge(scenario_id, "leaks", problems, _clean(scenario_id, words).detail)


def _clean(scenario_id: str, words: Iterable[str]) -> LintFinding:
    n_words = len(set(words))
    return LintFinding(scenario_id, "leaks", True, f"none of {n_words} words of the truth is in the snapshot")


def find_leaks(snapshot: Path, words: Iterable[str]) -> Iterator[Leak]:
    """Every place, file by file, in any case, as written and as JSON writes it."""
    forms: dict[bytes, str] = {}
    for word in words:
        folded = word.casefold()
        for form in (folded, folded.replace("\\", "\\\\").replace('"', '\\"')):
            forms.setdefault(form.encode("utf-8", "surrogatepass"), word)
    for name in list_files(snapshot):
        named = name.casefold().encode("utf-8", "surrogatepass")
        for word in dict.fromkeys(word for form, word in forms.items() if form in named):
            yield Leak(name, None, word)
        yield from _in_file(snapshot / name, name, forms)


def _in_file(path: Path, name: str, forms: dict[bytes, str]) -> Iterator[Leak]:
    overlap = max(map(len, forms), default=1) - 1
    places: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    n_lines, tail = 0, b""
    try:
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                text = tail + block.lower()
                for form, word in forms.items():
                    # What lies in the tail alone was found with the block before.
                    place = text.find(form, max(0, len(tail) - len(form) + 1))
                    while place >= 0:
                        counts[word] = counts.get(word, 0) + 1
                        if counts[word] <= MAX_PLACES:
                            places.setdefault(word, []).append(n_lines + text.count(b"\n", 0, place) + 1)
                        place = text.find(form, place + len(form))
                keep = min(overlap, len(text))
                n_lines += text.count(b"\n", 0, len(text) - keep)
                tail = text[len(text) - keep :]
    except OSError as error:
        raise DiagnoseBenchError(f"{path}: cannot be read: {error.strerror}.") from error
    for word, lines in places.items():
        for index, line in enumerate(lines):
            is_last = index == len(lines) - 1
            yield Leak(name, line, word, counts[word] - len(lines) if is_last else 0)
