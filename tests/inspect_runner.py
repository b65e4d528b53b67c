"""Evaluates our Inspect task with its mock model, as a process of its own: ``inspect_runner.py SETTINGS``.

Inspect leaves streams open that its own process closes at its end, and in tests warnings are errors.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from inspect_ai import eval as inspect_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from diagnose_bench.inspect_task.task import incidents


def main(settings: dict[str, Any]) -> None:
    turns = settings["turns"]

    def model(messages: Any, *_: Any) -> ModelOutput:
        said = sum(message.role == "assistant" for message in messages)
        name, arguments = turns[min(said, len(turns) - 1)]
        output = ModelOutput.for_tool_call("mockllm/model", name, arguments)
        # Without it the mock counts tokens with a table that it would fetch.
        output.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)
        return output

    inspect_eval(
        incidents(**settings["options"]),
        model=get_model("mockllm/model", custom_outputs=model),
        log_dir=settings["log_dir"],
        display="none",
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
