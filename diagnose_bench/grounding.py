"""Whether an agent saw what it named: names in the outputs of its commands, in which command first. No truth.

An output that only repeats what the agent itself wrote shows nothing. A name counts as seen in an output if

- no command up to and with that one has it in its text: the agent got it from the snapshot; or
- beside it in its line stands a word that no command so far has in its text, and that is none of those with
  which a shell or a tool repeats its arguments ("No such file or directory").

A command in whose text a secret was replaced may have written any name: its output is an echo at most, and
from then on every name counts as written.

So ``echo cart`` shows nothing, nor does ``cat /scratch/note`` after ``echo cart >/scratch/note``; a line that
``grep cart`` finds does. An agent that sets out to deceive can put a word of its own making beside the name;
but it could look the name up as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnose_bench.records import CommandRecord

_NAME_CHARACTER = "A-Za-z0-9"
_WORD = re.compile(r"[A-Za-z0-9]*[A-Za-z][A-Za-z0-9]*")
_SHORTEST_WORD = 3
_MOST_MATCHES = 1000
_ECHOING_TEXT = """
access accessing argument arguments attributeerror awk bash bin call cannot cat command cut defined denied did
directory does echo eof error errors exist exists expected fatal file filenotfounderror files find found grep
head indexerror invalid jq key keyerror last less line lines looking ls match matched matches matching mean
missing module most name named nameerror near not null object open opening operand option parse permission
printf python python3 query raise recent scratch sed sh snapshot sort sqlite sqlite3 stat statement stdin
string such syntax syntaxerror table tail token traceback try unable unexpected unknown unrecognized
unterminated usage usr valueerror warning while with xargs you
"""
_ECHOING = frozenset(_ECHOING_TEXT.split())
"""Words with which shells and tools repeat their arguments."""


class Sight(StrEnum):
    """What the outputs say of a name."""

    SEEN = "seen"
    ECHOED = "echoed"
    """Shown only where the agent's own words came back."""
    UNSEEN = "unseen"


@dataclass(frozen=True)
class Sighting:
    """One name in the outputs of a trial."""

    sight: Sight
    first_seen: int | None
    """Number of the command whose output was the first to show it; None where none did."""


@dataclass
class _Search:
    pattern: re.Pattern[str]
    was_written: bool = False
    was_echoed: bool = False
    first_seen: int | None = None

    @property
    def sighting(self) -> Sighting:
        if self.first_seen is not None:
            return Sighting(Sight.SEEN, self.first_seen)
        return Sighting(Sight.ECHOED if self.was_echoed else Sight.UNSEEN, None)


def sightings(named: Sequence[Sequence[str]], commands: Iterable[CommandRecord]) -> tuple[Sighting, ...]:
    """Look for names in what a trial's commands showed the agent.

    Parameters
    ----------
    named : sequence of sequences of str
        For each entity the names under which the agent may have seen it.
    commands : iterable of CommandRecord
        In their order; read once, and only as far as needed.

    Notes
    -----
    ``cart`` is seen in ``cart-5d8f7c9b6d-x2v5z`` (its Pod) and in ``shop/cart``, not in ``valkey-cart``. The
    middle of a long output, which the agent was not shown, shows nothing, and neither does an output that
    came after the end.
    """
    searches = [_Search(name_pattern(names)) for names in named]
    waiting = list(searches)
    own_words: set[str] = set()
    for command in commands if waiting else ():
        own_words.update(_words(command.command))
        if command.n_redactions:
            own_words.update(word for names in named for name in names for word in _words(name))
        for search in waiting:
            search.was_written = (
                search.was_written
                or command.n_redactions > 0
                or search.pattern.search(command.command) is not None
            )
            if not command.answered:
                continue
            if command.n_redactions:
                search.was_echoed = search.was_echoed or search.pattern.search(command.output) is not None
            else:
                _look(search, command, own_words)
        waiting = [search for search in waiting if search.first_seen is None]
        if not waiting:
            break
    return tuple(search.sighting for search in searches)


def name_pattern(names: Sequence[str]) -> re.Pattern[str]:
    """Matches any of some names where it is a name of its own or the beginning of one that it owns."""
    alternatives = "|".join(re.escape(name) for name in dict.fromkeys(names) if name)
    # An escaped line break of JSON (`\ncart`) ends in a letter that belongs to no name.
    before = rf"(?:(?<![{_NAME_CHARACTER}-])|(?<=\\[nrt]))"
    return re.compile(rf"{before}(?:{alternatives or '(?!)'})(?![{_NAME_CHARACTER}])")


def _look(search: _Search, command: CommandRecord, own_words: set[str]) -> None:
    output = command.output
    looked_until = 0
    for number, match in enumerate(search.pattern.finditer(output)):
        if not search.was_written:
            search.first_seen = command.n
            return
        search.was_echoed = True
        if match.start() < looked_until:
            continue
        if number >= _MOST_MATCHES:
            return
        start = output.rfind("\n", 0, match.start()) + 1
        end = output.find("\n", match.end())
        looked_until = len(output) if end < 0 else end
        if any(
            len(word) >= _SHORTEST_WORD and word not in own_words and word not in _ECHOING
            for word in _words(output[start:looked_until])
        ):
            search.first_seen = command.n
            return


def _words(text: str) -> Iterable[str]:
    return (match.group().casefold() for match in _WORD.finditer(text))
