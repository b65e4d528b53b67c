"""A person as an agent: the same sandbox, task, limits and record as for any other, at the terminal.

Each line is one command in one fresh sandbox, recorded by the harness. Names are completed from the
inventory of the snapshot, which says nothing about causes.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnose_bench.agents.base import AgentKind, AgentResult, TrialOver, TrialSession
from diagnose_bench.agents.terminal import Cancelled, Ended, Terminal, TimeUp, require_terminal
from diagnose_bench.errors import DiagnoseBenchError
from diagnose_bench.files import canonical_json
from diagnose_bench.records import AgentInfo

HELP = """Type a bash command: it runs in the sandbox, each one in a fresh one, and is recorded.
  task     the task again
  time     how much time is left
  submit   hand in the diagnosis (or: submit ENTITY ENTITY …)
  help     this
  exit     leave, after a question (Ctrl-D does the same)
Ctrl-C ends a command that runs. A line that ends in a backslash goes on in the next one.
Programs that need a terminal of their own (less, vi, top) do not work; long output is shown page by page."""
_MOST_MATCHES = 500
_LEAVE = "leave: s submit, g give this incident up, q quit the run, anything else stays: "


def make_human_agent(name: str | None = None, options: object = None) -> HumanAgent:
    """A person at this terminal.

    Parameters
    ----------
    name : str, optional
        What the person is called in results; ``human`` by default.
    options : object, optional
        Options of agents; none of them is about a person.

    Raises
    ------
    UsageError
        There is no terminal.
    """
    require_terminal()
    return HumanAgent(name or "human")


class HumanAgent:
    """Whoever sits at the terminal."""

    kind: AgentKind = "person"

    def __init__(self, name: str) -> None:
        self._info = AgentInfo(name=name)

    @property
    def info(self) -> AgentInfo:
        """Only a name."""
        return self._info

    def diagnose(self, session: TrialSession) -> AgentResult:
        """Let the person work until the diagnosis is in, the time is up, or the person gives up.

        Raises
        ------
        KeyboardInterrupt
            The person quits the run, or the terminal is gone.
        """
        with Terminal() as terminal:
            try:
                _Desk(session, terminal).work()
            except TimeUp:
                session.is_over()
                terminal.say("The time is up; this trial is over.")
            except TrialOver as over:
                terminal.say(str(over))
        return AgentResult()


class _GivenUp(Exception):
    """The person leaves this trial."""


class _Desk:
    """One person at one trial."""

    def __init__(self, session: TrialSession, terminal: Terminal) -> None:
        self._session = session
        self.terminal = terminal
        self._names: list[str] = []

    def work(self) -> None:
        try:
            self._begin()
            while not self._session.has_submission():
                self._one_line()
        except _GivenUp:
            self.terminal.say("Given up: this trial has no diagnosis.")

    def _begin(self) -> None:
        session, terminal = self._session, self.terminal
        terminal.say(f"\n{session.scenario_id}, repeat {session.repeat}\n{HELP}\n")
        # The person is waited for; the time begins when the task can be read.
        with session.paused():
            self._names = self._known_names()
            self._answer("Press Enter to begin; the time runs from then on. ", timed=False)
        terminal.show(session.task, within_s=session.time_left_s())

    def _known_names(self) -> list[str]:
        try:
            return sorted(map(str, self._session.inventory().entities))
        except DiagnoseBenchError as error:
            self.terminal.say(f"Names cannot be completed: {error}")
            return []

    def _one_line(self) -> None:
        try:
            line = self._command_line()
        except Cancelled:
            return
        except Ended:
            self._leave()
            return
        words = line.split()
        if not words:
            return
        if words[0] == "submit":
            self._submit(words[1:])
        elif len(words) == 1 and words[0] in ("task", "time", "help", "exit", "quit"):
            self._own(words[0])
        else:
            self._run(line)

    def _command_line(self) -> str:
        terminal, session = self.terminal, self._session
        prompt = f"[{_clock(session.time_left_s())} left] incident$ "
        line = terminal.ask(prompt, within_s=session.time_left_s(), remember=True)
        while line.endswith("\\"):
            line = f"{line}\n{terminal.ask('> ', within_s=session.time_left_s(), remember=True)}"
        return line

    def _own(self, word: str) -> None:
        session, terminal = self._session, self.terminal
        if word == "task":
            terminal.show(session.task, within_s=session.time_left_s())
        elif word == "time":
            terminal.say(f"{_clock(session.time_left_s())} left")
        elif word == "help":
            terminal.say(HELP)
        else:
            self._leave()

    def _run(self, command: str) -> None:
        session, terminal = self._session, self.terminal
        with terminal.cancelling(session.stop_command):
            reply = session.run_command(command)
        terminal.show(reply.output.decode("utf-8", "replace"), within_s=session.time_left_s())
        if reply.exit_code:
            terminal.say(f"[exit {reply.exit_code}]")
        if reply.notice:
            terminal.say(reply.notice)

    def _leave(self) -> None:
        answer = self._answer(_LEAVE).strip().lower()
        if answer in ("s", "submit"):
            self._submit(())
        elif answer in ("g", "give up"):
            raise _GivenUp
        elif answer in ("q", "quit"):
            raise KeyboardInterrupt

    def _answer(self, question: str, *, timed: bool = True) -> str:
        """An answer to a question of ours; Ctrl-C is none, and Ctrl-D leaves the run."""
        try:
            return self.terminal.ask(question, within_s=self._session.time_left_s() if timed else None)
        except Cancelled:
            return ""
        except Ended:
            raise KeyboardInterrupt from None

    def _submit(self, given: Sequence[str]) -> None:
        try:
            causes = [{"entity": entity} for entity in given] if given else self._named_causes()
            if not self._is_sure(causes):
                self.terminal.say("Nothing was handed in.")
                return
        except (Cancelled, Ended):
            self.terminal.say("Nothing was handed in.")
            return
        reply = self._session.submit(canonical_json({"root_causes": causes}))
        self.terminal.say(reply.message)

    def _named_causes(self) -> list[dict[str, str]]:
        terminal, session = self.terminal, self._session
        terminal.say(
            "Name the root causes, the surest first, one a line: [namespace/]Kind/name. Tab completes the "
            "names of the snapshot, an empty line ends the list, Ctrl-C leaves without handing in."
        )
        causes: list[dict[str, str]] = []
        while True:
            question = f"root cause {len(causes) + 1}: "
            entity = terminal.ask(question, within_s=session.time_left_s(), complete=self._matching).strip()
            if not entity:
                return causes
            if self._names and entity not in self._names:
                terminal.say("  No object of the snapshot is written like that; it is kept as it is.")
            why = terminal.ask("  why (may be empty): ", within_s=session.time_left_s()).strip()
            causes.append({"entity": entity, "reasoning": why} if why else {"entity": entity})

    def _is_sure(self, causes: Sequence[dict[str, str]]) -> bool:
        for number, cause in enumerate(causes, start=1):
            self.terminal.say(f"  {number}. {cause['entity']}")
        what = "these" if causes else "that nothing is wrong"
        question = f"Hand in {what}? The shell closes then. y or n: "
        answer = self.terminal.ask(question, within_s=self._session.time_left_s())
        return answer.strip().lower() in ("y", "yes")

    def _matching(self, typed: str) -> list[str]:
        """The objects that begin with what was typed; else those whose name does; else those that have it."""
        text = typed.strip()
        rules = (
            lambda entity: entity.startswith(text),
            lambda entity: entity.rpartition("/")[2].startswith(text),
            lambda entity: text.lower() in entity.lower(),
        )
        for rule in rules:
            if found := [entity for entity in self._names if rule(entity)]:
                return found[:_MOST_MATCHES]
        return []


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
