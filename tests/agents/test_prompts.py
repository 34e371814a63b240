"""What an agent's prompt says is true of that agent: it names its own tools only, and no plan where there is none."""

import re

import pytest

from kbnav.agents.gog import gog_with
from kbnav.agents.pasemiqa import pasemiqa_with
from kbnav.agents.skb import skb_with
from kbnav.agents.spinach import spinach_with
from kbnav.models.scripted import ScriptedModel
from kbnav.runs.trajectory import Usage
from kbnav.sessions.session import attempt
from kbnav.settings.model import Settings

NAMES = re.compile(
    r"\b(search_entities|get_entry|get_property_examples|execute_query|search_neighbors|vector_query|show_rows|"
    r"find_relations|follow_paths|get_fields|follow_relations|search_relations|search_further)\b"
)


def silent(prompt: str, purpose: str, *, temperature: float | None = None, sample: int = 0) -> tuple[str, Usage]:
    return "", Usage()


@pytest.mark.parametrize("name", ["spinach", "paper", "skb", "pasemiqa", "gog"])
def test_a_prompt_names_only_the_tools_that_its_agent_has(demo_kb, mini_kb, tmp_path, name):
    model = ScriptedModel(replies=[])
    options = {"preset": "paper"} if name == "paper" else {}
    settings = Settings(home=tmp_path, model="scripted", options=options)
    make = {
        "spinach": lambda: spinach_with(model, None, mini_kb, settings),
        "paper": lambda: spinach_with(model, None, mini_kb, settings),
        "skb": lambda: skb_with(model, None, demo_kb, settings),
        "pasemiqa": lambda: pasemiqa_with(model, silent, None, demo_kb, settings),
        "gog": lambda: gog_with(model, silent, None, demo_kb, settings),
    }
    agent = make[name]()
    attempt(agent, "Which ship was built by Marit Skarrow?")
    prompt = str(model.seen[0][0].text)
    named = set(NAMES.findall(prompt))
    assert named <= set((agent.model_tools or agent.toolbox).names)
    assert named or name == "gog"
    if name == "pasemiqa":
        assert not re.search(r"\bplan\b", prompt)
