"""What a submission rests on, in words: where its name was shown first, its evidence. Renders nothing."""

from __future__ import annotations

import json

from diagnose_bench.evidence import Found
from diagnose_bench.grounding import Sight
from diagnose_bench.scorecard import CitationScore, EntityScore

_SIGHTS = {
    Sight.SEEN: "first shown to the agent by command {command}",
    Sight.ECHOED: "never shown: outputs only repeat what the agent wrote itself",
    Sight.UNSEEN: "never shown by any command",
}
_FOUND = {
    Found.FOUND: "is in the snapshot",
    Found.OTHER_LINE: "is in that file, in another line",
    Found.NO_QUOTE: "the file does not hold that",
    Found.NO_LINE: "the file has no such line",
    Found.NO_FILE: "the snapshot has no such file",
    None: "not checked",
}


def grounds_text(entity: EntityScore, most: int | None = None) -> list[str]:
    """Lines about one submission, the text of the agent in them as it came.

    Parameters
    ----------
    entity : EntityScore
        With what was seen of it and the evidence it cites.
    most : int, optional
        Pieces of evidence to show; the rest is counted.
    """
    lines = [] if entity.sight is None else [_SIGHTS[entity.sight].format(command=entity.first_seen)]
    lines += [_citation(one) for one in entity.evidence[:most]]
    if most is not None and len(entity.evidence) > most:
        lines.append(f"and {len(entity.evidence) - most} more pieces of evidence, all in scorecard.json")
    return lines


def _citation(one: CitationScore) -> str:
    place = "no file named" if one.file is None else one.file
    if one.line is not None:
        place += f", line {one.line}"
    quote = f", {json.dumps(one.quote, ensure_ascii=False)}" if one.quote else ""
    return f"evidence {place}{quote}: {_FOUND[one.found]}"
