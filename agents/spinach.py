"""The SPINACH agent: explores Wikidata as an expert would, and writes SPARQL (SPINACH, section 4).

It does so on any SPARQL endpoint too, with tools and a prompt in the words of RDF.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import ModelWriter, QueryEnding, write_plainly
from kbnav.agents.common.state import Policy, Reply, State
from kbnav.answers.language import chosen_language
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.several import SeveralKB
from kbnav.knowledge.sparql.vocabulary import Vocabulary, vocabulary_of
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.systems import Options, kb_kind
from kbnav.tools.context import Context, Shown, pruner
from kbnav.tools.endpoint import shapes_for
from kbnav.tools.several import about_several, several_tools, tools_of
from kbnav.tools.spinach_paper import PAPER_TOOLS
from kbnav.tools.toolbox import ENDPOINT_TOOLS, WIKIDATA_TOOLS, Toolbox, ToolFunction

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


_ENDED = ("P576", "P582")
"""Ends of things and of statements, by their ids on Wikidata."""


class SpinachOptions(Options):
    """Options of ``spinach``."""

    preset: Literal["kbnav", "paper"] = "kbnav"
    """``paper``: the agent as the paper has it, without what kbnav adds."""
    going_back: Literal["paper", "published"] = "paper"
    """With ``preset=paper``, whether a run goes back as the paper says or as its published program does."""


def build_spinach(kb: KnowledgeBase, settings: Settings) -> Agent:
    """SPINACH with the settings' model: ``offline``, ``replay:RUN``, or a chat model by its name."""
    if settings.model == OFFLINE:
        return spinach_with(None, None, kb, settings)
    from kbnav.models.chat import open_models

    return spinach_with(*open_models(settings), kb, settings)


def spinach_with(
    policy_model: BaseChatModel | None, writer_model: BaseChatModel | None, kb: KnowledgeBase, settings: Settings
) -> Agent:
    """SPINACH on any LangChain chat model, or by rules where there is none.

    Without a ``writer_model``, entries are ranked and answers are plain.
    """
    options = SpinachOptions.model_validate(settings.options)
    paper = options.preset == "paper"
    tools, prompt = _tools(kb, paper)
    toolbox = Toolbox.for_kb(kb, tools, without=settings.without_tools, more=settings.own_tools)
    shown = Shown(whole_rows=0, profiles=False) if paper else Shown()
    if paper:
        # One call a turn, fixed rollback, pruning by the model, nothing told.
        without = (*settings.budget.without, "hint", "escalate", "parallel", "free_finish", "told")
        back = {"without": without, "published": options.going_back == "published"}
        budget = settings.budget.model_copy(update=back)
        settings = settings.model_copy(update={"budget": budget, "pruning": "model"})
    elif options.going_back != "paper":
        raise UsageError("going_back is an option of the preset paper: add preset=paper")
    if policy_model is None:
        policy, model = _offline_policy(kb, toolbox), OFFLINE
    else:
        policy, model = _chat_policy(policy_model, toolbox, prompt, kb, settings, shown), settings.model
    return Agent(
        name="spinach",
        model=model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=QueryEnding(
            ModelWriter(writer_model, shown) if writer_model else write_plainly,
            last_executed=paper or not settings.budget.holds("premature_finish"),
        ),
        prune=pruner(settings, writer_model, shown, vocabulary_of(kb)),
        prompts=("spinach",),
        shown=shown,
    )


def _tools(kb: KnowledgeBase, paper: bool) -> tuple[Sequence[ToolFunction], str]:
    """The tools for a kind of knowledge base, and the name of the prompt. Raises UsageError."""
    kind = kb_kind(kb)
    if kind != "wikibase" and paper:
        raise UsageError("the preset paper is SPINACH's own agent, which is for Wikidata: leave it out here")
    if isinstance(kb, SeveralKB):
        refuse_skbs(kb)
        return several_tools(kb), "several"
    if kind == "sparql" or _is_own(kb):
        return ENDPOINT_TOOLS, "endpoint"
    return (PAPER_TOOLS, "paper") if paper else (WIKIDATA_TOOLS, "policy")


def _chat_policy(
    model: BaseChatModel, toolbox: Toolbox, prompt: str, kb: KnowledgeBase, settings: Settings, shown: Shown
) -> Policy:
    from kbnav.agents.common.policy import ChatPolicy

    words = vocabulary_of(kb)
    return ChatPolicy(
        model,
        toolbox,
        f"spinach/{prompt}.md",
        settings.budget,
        about=about_endpoint(kb, settings, shown) if kb_kind(kb) in ("sparql", "several") or _is_own(kb) else None,
        partial=is_mirror(kb.state()),
        date=kb.state().get("mirror", {}).get("newest", "")[:10],
        to_class=words.to_class,
        ended=words.each(_ENDED),
    )


def _offline_policy(kb: KnowledgeBase, toolbox: Toolbox) -> Policy:
    from kbnav.agents.offline.policy import SeveralPolicy

    if isinstance(kb, SeveralKB):
        return SeveralPolicy(
            {
                name: _offline_policy(one, Toolbox(tools_of(kb_kind(one)), one.capabilities).only(toolbox.names))
                for name, one in kb.parts.items()
            }
        )
    if kb_kind(kb) == "sparql":
        from kbnav.agents.offline.endpoint import EndpointAgenda

        return lambda state, context: EndpointAgenda(toolbox, state, context).reply()
    from kbnav.agents.offline.wikidata import WikidataAgenda

    def by_rule(state: State, context: Context) -> Reply:
        if _is_own(kb):  # said when a question is asked: its tools need no model
            raise UsageError(f"the rules cannot ask {kb.name}, your own: name a model by --model (model= in Python)")
        return WikidataAgenda(toolbox, vocabulary_of(kb), state, context).reply()

    return by_rule


def _is_own(kb: KnowledgeBase) -> bool:
    """Whether it is a knowledge base of a user's, whose words are not those of a Wikibase."""
    return kb_kind(kb) == "wikibase" and not isinstance(getattr(kb, "vocabulary", None), Vocabulary)


def about_endpoint(kb: KnowledgeBase, settings: Settings, shown: Shown) -> Callable[[str], Mapping[str, object]]:
    """What the prompt says of an endpoint, or of each of several, by the question: prefixes, classes and shapes."""

    def about(question: str) -> Mapping[str, object]:
        language = chosen_language(settings.language, question)
        if isinstance(kb, SeveralKB):
            return about_several(kb, question, language, shown)
        shapes = shapes_for(kb, question, language, shown) if shown.profiles else ""
        return {"shapes": shapes, "prefixes": kb.state().get("prefixes", {})}

    return about


def refuse_skbs(kb: SeveralKB) -> None:
    """Raises UsageError where one of several knowledge bases is an SKB."""
    skbs = [name for name, one in kb.parts.items() if kb_kind(one) == "skb"]
    if skbs:
        raise UsageError(f"{', '.join(skbs)}: an SKB cannot be asked together with others; ask it alone")
