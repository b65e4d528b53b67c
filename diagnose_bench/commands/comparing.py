"""``compare`` and ``plan``: whether one run is better than another, and what it takes to know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diagnose_bench.commands.common import EXIT_DONE, Format, FormatOption, leave, print_json, show
from diagnose_bench.errors import UsageError

AllowOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD", help="Let this field of the signature differ; it is printed. Repeatable."),
]
LevelOption = Annotated[
    float, typer.Option(metavar="P", help="Confidence of intervals; a difference is called at p <= 1 - P.")
]
PowerOption = Annotated[
    float, typer.Option(metavar="P", help="Chance of calling the minimum detectable difference.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command(short_help="Say whether one run is better than another.")(compare)
    app.command(short_help="Say how many scenarios and repeats a difference needs.")(plan)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Folders of scored runs, or scorecards; the first is the baseline."
        ),
    ],
    margin: Annotated[
        float,
        typer.Option(metavar="M", help="Largest loss that would not matter: 0.05 is five points."),
    ] = 0.05,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Every pair, and groups that cannot be told apart.")
    ] = False,
    allow: AllowOption = None,
    undecided_ok: Annotated[
        bool, typer.Option("--undecided-ok", help="Exit with 0 where nothing can be decided.")
    ] = False,
    ab_test: Annotated[
        bool,
        typer.Option(
            "--ab-test",
            help="Split the repeats of one run at random, many times: how often is a difference called?",
        ),
    ] = False,
    draws: Annotated[int, typer.Option(metavar="N", help="Random splits of --ab-test.")] = 1000,
    level: LevelOption = 0.95,
    power: PowerOption = 0.8,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of what is drawn at random; the result names it.")
    ] = 0,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Compare runs of the same suite, paired by scenario.

    Exits with 0 where the run is better or not worse by the margin, with 1 only for a significant regression,
    with 3 where it is not decidable. Runs whose signatures differ (but in the version) are refused.

    Example: diagnose-bench compare runs/before runs/after
    """
    from diagnose_bench.comparison_settings import Settings

    settings = Settings(margin=margin, level=level, power=power, seed=seed)
    if ab_test:
        if len(runs) != 1 or all_pairs or allow:
            raise UsageError("--ab-test takes one run, and neither --all-pairs nor --allow.")
        from diagnose_bench.comparison_false_alarms import false_alarms

        report = false_alarms(runs[0], settings=settings, n_draws=draws)
        if format_ is Format.JSON:
            print_json(report.to_dict())
        else:
            show(report.text())
        leave(EXIT_DONE)

    from diagnose_bench.comparison import compare_runs
    from diagnose_bench.comparison_text import comparison_text

    comparison = compare_runs(runs, allow=tuple(allow or ()), all_pairs=all_pairs, settings=settings)
    if format_ is Format.JSON:
        print_json(comparison.to_dict())
    else:
        show(comparison_text(comparison))
    leave(comparison.exit_code(undecided_ok=undecided_ok))


def plan(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="None, one or two scored runs to estimate the spread from."),
    ] = None,
    difference: Annotated[
        float, typer.Option(metavar="D", help="True difference to be called: 0.1 is ten points.")
    ] = 0.1,
    between_sd: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="State the interaction: sd over scenarios of the expected difference of the two agents.",
        ),
    ] = None,
    within_sd: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="State the repeat sd: of the difference of one trial of each agent on one scenario.",
        ),
    ] = None,
    scenarios: Annotated[
        int | None, typer.Option(metavar="N", help="Scenarios you have (default: those of the runs).")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", help="Repeats you have (default: those of the runs, or 3).")
    ] = None,
    scenario_cost: Annotated[
        float, typer.Option(metavar="C", help="Cost of one more scenario, without its trials.")
    ] = 1.0,
    trial_cost: Annotated[
        float, typer.Option(metavar="C", help="Cost of one more trial, in the same currency.")
    ] = 1.0,
    level: LevelOption = 0.95,
    power: PowerOption = 0.8,
    allow: AllowOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Say how many scenarios and repeats a wanted difference needs, and what the present design can see.

    Example: diagnose-bench plan runs/before runs/after --difference 0.1
    """
    from diagnose_bench.planning import plan_design
    from diagnose_bench.planning_request import PlanRequest
    from diagnose_bench.planning_text import plan_text

    request = PlanRequest(
        difference=difference,
        level=level,
        power=power,
        between_sd=between_sd,
        within_sd=within_sd,
        n_scenarios=scenarios,
        n_repeats=repeats,
        scenario_cost=scenario_cost,
        trial_cost=trial_cost,
    )
    found = plan_design(request, runs or (), allow=tuple(allow or ()))
    if format_ is Format.JSON:
        print_json(found.to_dict())
    else:
        show(plan_text(found))
