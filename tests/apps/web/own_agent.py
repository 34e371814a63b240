"""An agent of somebody's own, named to a server as a module and a function."""

from dataclasses import replace

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import build_spinach
from kbnav.knowledge.base import KnowledgeBase
from kbnav.settings.model import Settings


def build(kb: KnowledgeBase, settings: Settings) -> Agent:
    """SPINACH under another name."""
    return replace(build_spinach(kb, settings), name="own")
