"""What an agent saw of a name: outputs of the snapshot count, its own words coming back do not."""

from __future__ import annotations

import pytest

from diagnose_bench.grounding import Sight, Sighting, sightings
from diagnose_bench.records import CommandRecord

EVENT = '{"kind":"Pod","name":"cart-5d8f7c9b6d-x2v5z","namespace":"shop","reason":"OOMKilled"}'


def ran(*commands: tuple[str, str], answered: bool = True) -> list[CommandRecord]:
    return [
        CommandRecord(
            n=n,
            started_at="",
            seconds=0,
            command=command,
            exit_code=0,
            n_bytes=0,
            output=output,
            sha256="",
            answered=answered,
        )
        for n, (command, output) in enumerate(commands, start=1)
    ]


def one(*commands: tuple[str, str], names: tuple[str, ...] = ("cart",)) -> Sighting:
    (found,) = sightings([names], ran(*commands))
    return found


def test_the_first_command_that_shows_it_is_named() -> None:
    found = one(("ls /snapshot", "events.jsonl"), ("cat events.jsonl", EVENT), ("grep cart x", EVENT))
    assert found == Sighting(Sight.SEEN, 2)


@pytest.mark.parametrize(
    "commands",
    [
        [("echo cart", "cart\n")],
        [("echo shop/Deployment/cart", "shop/Deployment/cart")],
        [("for i in cart checkout; do echo found $i; done", "found cart\nfound checkout\n")],
        [('printf \'{"entity": "cart"}\' >/scratch/note', ""), ("cat /scratch/note", '{"entity": "cart"}')],
        [("cat /snapshot/logs/cart.log", "cat: /snapshot/logs/cart.log: No such file or directory\n")],
        [("cart --help", "/bin/bash: line 1: cart: command not found")],
        [("ls /snapshot/cart", "ls: cannot access '/snapshot/cart': No such file or directory")],
        [("python3 -c 'd[\"cart\"]'", "Traceback (most recent call last):\nKeyError: 'cart'")],
        # Beside the echo stands nothing, whatever else the output has.
        [("echo cart; ls", "cart\nevents.jsonl\nobjects.jsonl")],
    ],
)
def test_its_own_words_coming_back_are_no_sight(commands: list[tuple[str, str]]) -> None:
    assert one(*commands) == Sighting(Sight.ECHOED, None)


@pytest.mark.parametrize(
    "commands",
    [
        [("grep -h cart /snapshot/events.jsonl", EVENT)],
        [("ls /snapshot/logs | grep cart", "shop_cart.log")],
        [("jq -r 'select(.name==\"cart\")|[.name,.reason]|@tsv' e.jsonl", "cart\tOOMKilled")],
        [("kubectl get pods | grep cart", "cart-5d8f7c9b6d-x2v5z   0/1   Running")],
        # Guessed, echoed, and then found.
        [("echo cart", "cart"), ("cat /snapshot/events.jsonl", EVENT)],
    ],
)
def test_a_name_that_was_guessed_and_found_is_seen(commands: list[tuple[str, str]]) -> None:
    assert one(*commands) == Sighting(Sight.SEEN, len(commands))


def test_a_name_that_an_output_showed_first_may_be_repeated_at_will() -> None:
    found = one(("cat /snapshot/names", "cart"), ("echo cart", "cart"))
    assert found == Sighting(Sight.SEEN, 1)


def test_an_output_that_came_after_the_end_shows_nothing() -> None:
    (found,) = sightings([("cart",)], ran(("cat events.jsonl", EVENT), answered=False))
    assert found == Sighting(Sight.UNSEEN, None)


def test_each_of_several_entities_is_looked_for_under_all_its_names() -> None:
    commands = ran(("a", "valkey up"), ("b", EVENT))
    found = sightings([("cart-abc", "cart"), ("valkey",), ("checkout",), ("",)], commands)
    assert found == (
        Sighting(Sight.SEEN, 2),
        Sighting(Sight.SEEN, 1),
        Sighting(Sight.UNSEEN, None),
        Sighting(Sight.UNSEEN, None),
    )


def test_a_name_repeated_without_end_takes_linear_time() -> None:
    # Every line is an echo; a search of each line again for each match would not end.
    output = "cart " * 200_000
    assert one(("echo cart", output)) == Sighting(Sight.ECHOED, None)


def test_a_command_whose_text_is_not_all_on_record_shows_nothing_but_an_echo() -> None:
    hidden = ran((": x://a:[redacted:password-in-url]@", "found cart\n" + EVENT))[0]
    hidden = hidden.model_copy(update={"n_redactions": 1})
    later_echo, later_sight = ran(("ls", ""), ("cat /scratch/note", "cart\n"), ("cat /snapshot/e", EVENT))[1:]
    assert sightings([("cart",)], [hidden]) == (Sighting(Sight.ECHOED, None),)
    assert sightings([("cart",)], [hidden, later_echo]) == (Sighting(Sight.ECHOED, None),)
    assert sightings([("cart",)], [hidden, later_echo, later_sight]) == (Sighting(Sight.SEEN, 3),)
