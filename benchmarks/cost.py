"""What a question costs: the 387 published SPINACH runs on QALD-10, with kbnav's own prompts, counted in tokens.

    python benchmarks/cost.py [--data ../shared/data] [--prompt-price 2.5] [--completion-price 10]

The actions and observations are those recorded with GPT-4o. Each is put through kbnav's state machine, so that every
call has the messages that kbnav would send: instructions, descriptions of the tools, the question and the path so far;
and at the end the call that writes the answer. Tokens are those of the encoding o200k_base (GPT-4o and later), by
tiktoken, which fetches it once. Prices are dollars per million tokens; discounts for prompts that begin alike are left
out, so that this is an upper bound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage

from kbnav.agents.common.writers import ModelWriter
from kbnav.models.scripted import ScriptedModel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.replay_spinach_runs import RecordedTools, recorded_runs, replay, script

if TYPE_CHECKING:
    import tiktoken

FRAME = 4
"""Tokens around each message that say who speaks."""


def tokens(encoding: tiktoken.Encoding, messages: Sequence[BaseMessage]) -> int:
    """Tokens of messages with their calls."""
    return sum(
        FRAME + sum(len(encoding.encode(text, disallowed_special=())) for text in _texts(message))
        for message in messages
    )


def _texts(message: BaseMessage) -> list[str]:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [message.text, *(f"{call['name']} {json.dumps(call['args'], ensure_ascii=False)}" for call in calls)]


def spent(encoding: tiktoken.Encoding, recorded: dict[str, Any], home: Path) -> tuple[int, int, int]:
    """Calls, prompt tokens and completion tokens of one question."""
    policy, writer = script(recorded), ScriptedModel(replies=[])
    run = replay(recorded, home, policy, ModelWriter(writer))
    schemas = len(encoding.encode(json.dumps(RecordedTools(recorded).schemas)))
    prompt = sum(tokens(encoding, seen) + schemas for seen in policy.seen)
    prompt += sum(tokens(encoding, seen) for seen in writer.seen)
    completion = sum(tokens(encoding, [reply]) for reply in policy.replies[: len(policy.seen)])
    completion += len(encoding.encode(run.outcome.text))  # the plain answer: how a model would put it was not recorded
    return len(policy.seen) + len(writer.seen), prompt, completion


def main() -> None:
    """Print the counts and the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--prompt-price", type=float, default=2.5)
    parser.add_argument("--completion-price", type=float, default=10.0)
    given = parser.parse_args()
    import tiktoken

    encoding = tiktoken.get_encoding("o200k_base")
    with tempfile.TemporaryDirectory() as home:
        each = list(map(partial(spent, encoding, home=Path(home)), recorded_runs(given.data)))
    dollars = [
        (prompt * given.prompt_price + completion * given.completion_price) / 1e6 for _, prompt, completion in each
    ]
    print(f"{len(each)} questions")
    print(f"{'':18}{'median':>10}{'mean':>10}{'nine of ten under':>20}")
    columns = {
        "calls": ([one[0] for one in each], ",.1f"),
        "prompt tokens": ([one[1] for one in each], ",.0f"),
        "completion tokens": ([one[2] for one in each], ",.0f"),
        "dollars": (dollars, ".3f"),
    }
    for name, (values, form) in columns.items():
        most = statistics.quantiles(values, n=10)[-1]
        print(f"{name:18}{statistics.median(values):>10{form}}{statistics.fmean(values):>10{form}}{most:>20{form}}")


if __name__ == "__main__":
    main()
