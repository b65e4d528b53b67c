"""The command reference says what the commands say."""

from command_reference import PLACE, commands, reference


def test_the_command_reference_is_fresh() -> None:
    assert PLACE.read_text(encoding="utf-8") == reference(), "Write it anew: make docs"


def test_every_option_and_argument_says_what_it_is_for() -> None:
    for words, command in commands():
        for parameter in command.params:
            assert parameter.help, (words, parameter.name)
