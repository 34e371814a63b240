"""``kbnav ask``, ``chat``, ``retrieve``: one question, sessions with what can be typed in them, ranked nodes."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.answers.language import chosen_language
from kbnav.answers.question import SPARQL, checked_question
from kbnav.answers.tables import Ranking, csv_text
from kbnav.apps.cli.options import Asking, BaseUrl, Given, Json, Kb, Model, argument, flag, load, open_skb, option
from kbnav.apps.cli.terminal import RunProgress, print_error, print_json, stop_on_signals
from kbnav.apps.console import (
    answer_json,
    answer_table,
    asked_words,
    evidence_lines,
    labelled_query,
    print_answer,
    printable,
    query_lines,
    spent_words,
)
from kbnav.apps.texts import Texts
from kbnav.errors import StopRun, UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.cancellation import Cancellation
from kbnav.runs.trajectory import Run, load_runs, new_id, saved_runs
from kbnav.settings.model import OFFLINE, SEPARATOR, Settings
from kbnav.settings.systems import kb_kind, kind_of
from kbnav.tools.show import cut

if TYPE_CHECKING:
    from kbnav.knowledge.evidence import Provenance
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.knowledge.skb.store import SKB

_ENDING, _INTERRUPTED = "ending the question", "Interrupted; the run so far is saved: kbnav show last"


def ask(
    question: Annotated[str, argument("QUESTION", "In any language; - reads it from standard input.")],
    of: Asking,
    follow_up: Annotated[bool, flag("--continue", "Ask a follow-up to the last question.", "-c")] = False,
    as_json: Json = False,
    as_csv: Annotated[bool, flag("--csv", "Print all rows or nodes as CSV; steps go to standard error.")] = False,
    quiet: Annotated[bool, flag("--quiet", "Do not print the steps.", "-q")] = False,
    evidence: Annotated[bool, flag("--evidence", "Also print what makes each row true; two queries more.")] = False,
) -> None:
    """Ask one question; thoughts, actions and observations are shown as they happen.

    For example: kbnav ask --kb demo --set budget.steps=9 "Who was born in Little Mew?"
    """
    if as_csv and (as_json or evidence):
        raise typer.BadParameter("give --json or --csv, not both; --evidence goes with --json")
    text = sys.stdin.read() if question == "-" else question
    question = checked_question(text)
    earlier = _last_run() if follow_up else None
    of = _as_before(of, earlier) if earlier else of
    settings = of.settings()
    _refuse_query(text, settings)
    settings.check_key()  # before the imports that take seconds
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.session import ask as ask_agent

    console = Console(stderr=as_json or as_csv)
    history = earlier.turns if earlier else ()
    cancellation = Cancellation()
    with open_kb(settings) as base, stop_on_signals(_ENDING, cancellation, _INTERRUPTED):
        agent = build_agent(base, settings, of.system or "")
        print_baseline(console, agent, chosen_language(settings.language, question), quiet, follow_ups=follow_up)
        if earlier and _reads_follow_ups(agent):
            console.print(f"after: {printable(earlier.question)}", style="dim", highlight=False, markup=False)
        with RunProgress(console, agent.model, steps=not quiet) as progress:
            run = ask_agent(agent, question, on_event=progress, cancellation=cancellation, history=history)
        found = None
        if evidence:
            from kbnav.sessions.evidence import run_evidence

            found = run_evidence(base, run)
        fields = node_fields(base, run.outcome.ranking) if as_csv and run.outcome.ranking else ()
    print_outcome(run, settings, as_json, as_csv, found, fields)
    raise typer.Exit(0 if run.outcome.status in ("answered", "best effort") else 1)


def _refuse_query(question: str, settings: Settings) -> None:
    """Raise UsageError for a query, which rules do not read."""
    if settings.model == OFFLINE and SPARQL.match(question):
        raise UsageError("this is a SPARQL query and no question: `kbnav sparql query` runs it")


def _reads_follow_ups(agent: Agent) -> bool:
    return agent.model != OFFLINE or kb_kind(agent.kb) != "sparql"


def print_baseline(console: Console, agent: Agent, language: str, quiet: bool, *, follow_ups: bool = False) -> None:
    """Print that no language model answers, where none does and that is not to be ``quiet``.

    Also, of ``follow_ups``, that none is read, where the rules do not.
    """
    if agent.model == OFFLINE and not quiet:
        console.print(Texts(language)("cli.rules"), style="dim")
    if follow_ups and not _reads_follow_ups(agent):
        console.print(Texts(language)("cli.no_follow_ups"), style="dim")


def print_outcome(
    run: Run, settings: Settings, as_json: bool = False, as_csv: bool = False, evidence: Provenance | None = None,
    fields: Sequence[Mapping[str, Any]] = (),
) -> None:  # fmt: skip
    """Print the answer, for people or for programs; with the evidence for it where that was looked up."""
    page = settings.endpoints.query_page
    saved = (settings.home / "runs" / f"{run.id}.json").is_file()
    if as_json:
        print(answer_json(run, page, evidence))
    elif as_csv:
        from kbnav.apps.web.downloads import answer_csv

        sys.stdout.write(answer_csv(run.outcome, fields))
        if not saved:
            print_error(run.outcome.error)
    else:
        console = Console()
        console.rule()
        print_answer(console, run, page)
        for line in evidence_lines(evidence, answer_table(run.outcome), run.language) if evidence else ():
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
        texts = Texts(run.language)
        steps = texts("cli.show", command=f"kbnav show {run.id}") if saved else texts("cli.unsaved")
        told = f"{asked_words(run, texts)}; {spent_words(run, texts)}; {steps}"
        console.print(printable(told), markup=False, style="dim", highlight=False, soft_wrap=True)


def _last_run() -> Run:
    """The last run of an agent; what ``kbnav retrieve`` ranked is no answer. Raises UsageError where there is none."""
    for run in load_runs(reversed(saved_runs(load().home / "runs")), print_error):
        # A builder that does not say what it builds, or is gone: the run shows it, as a ranking has no language.
        if (kind_of(run.system) or ("agent" if run.language else "retriever")) == "agent":
            return run
    raise UsageError("there is no earlier question to follow up")


def _as_before(of: Asking, earlier: Run) -> Asking:
    """The same knowledge base, model and system as before, where no other is named."""
    before = earlier.settings
    same_kb = not of.kb or SEPARATOR.join(of.kb) == before.get("kb")
    return replace(
        of,
        kb=of.kb or ([str(before["kb"])] if before.get("kb") else None),
        model=of.model or before.get("model"),
        base_url=of.base_url or before.get("base_url") or None,
        system=of.system or (earlier.system if same_kb else None),
    )


_ENDS = ("", "/quit", "/exit")
_HELP = """\
/sparql  the query of the last answer that has one, or else the last that ran
/quit    end the session, as an empty line and Ctrl-D do
In a shell, `kbnav show last` prints the last answer's steps, `kbnav export last answer.html` writes it to a file."""
_PROMPT = "\001\x1b[1m\002?\001\x1b[0m\002 "
"""In bold; marked, so that the line editor knows that the codes have no width."""


def chat(
    of: Asking,
    session: Annotated[str | None, option("--session", "ID", "Go on with an earlier session.")] = None,
    quiet: Annotated[bool, flag("--quiet", "Do not print the steps.", "-q")] = False,
) -> None:
    """Ask question after question, each knowing those before it; /help lists what else can be typed.

    A session is saved after every step; --session continues it, also after a kill.

    For example: kbnav chat --kb demo
    """
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.session import Chat, sqlite_sessions

    settings, console = of.settings(), Console()
    settings.check_key()
    runs: list[Run] = []
    with sqlite_sessions(settings.home) as saver, ExitStack() as stack:
        if session and saver.get_tuple({"configurable": {"thread_id": session}}) is None:
            raise UsageError(f"there is no session {session!r}: a chat without --session begins one and says its id")
        base = stack.enter_context(open_kb(settings))
        agent = build_agent(base, settings, of.system or "")
        talk = Chat(agent, session or new_id("chat"), saver)
        talk.recover()
        texts = Texts(settings.language)
        print_baseline(console, agent, settings.language, quiet, follow_ups=True)
        _print(console, texts("cli.session", id=talk.id, kb=settings.kb, model=agent.model))
        _print(console, texts("cli.commands"))

        def answer(question: str) -> None:
            """Answer, and print that; what stops it is printed, and the session goes on."""
            try:
                _refuse_query(question, settings)
                progress = RunProgress(console, agent.model, steps=not quiet)
                cancellation = Cancellation()
                with stop_on_signals(_ENDING, cancellation, _INTERRUPTED), progress:
                    runs.append(talk.ask(question, on_event=progress, cancellation=cancellation))
                print_outcome(runs[-1], settings)
            except StopRun as error:
                print_error(error)

        if question := talk.unfinished:
            _print(console, texts("cli.goes_on", question=question))
            answer(question)
        read = _line_reader()
        while (line := read()) not in _ENDS:
            if line.startswith("/"):
                _command(line, console, runs)
            else:
                answer(line)
        _print(console, texts("cli.later", command=_same_command(of, settings, talk.id)))


def _print(console: Console, text: str) -> None:
    console.print(printable(text), style="dim", highlight=False, markup=False, soft_wrap=True)


def _command(line: str, console: Console, runs: list[Run]) -> None:
    if line == "/help":
        _print(console, _HELP)
    elif line != "/sparql":
        _print(console, f"there is no {line.split()[0]}; /help lists the commands")
    elif asked := next((run for run in reversed(runs) if run.outcome.query), None):
        console.print(query_lines(labelled_query(asked)), crop=False)
    elif tried := [step.query for run in runs for step in run.path if step.query and step.rows]:
        console.print(query_lines(tried[-1]), crop=False)
    else:
        _print(console, "no query has run here yet")


def _same_command(of: Asking, settings: Settings, session: str) -> str:
    options = {"kb": of.kb and settings.kb, "model": of.model, "base-url": of.base_url, "system": of.system}
    pairs = [(name, value) for name, value in options.items() if value]
    pairs += [("set", one) for one in of.given or ()] + [("notes", str(one)) for one in of.notes or ()]
    return f"kbnav chat --session {session}" + "".join(f" --{name} {shlex.quote(value)}" for name, value in pairs)


def _line_reader() -> Callable[[], str]:
    """A function that reads a line, empty at the end; on a terminal the arrow keys bring back earlier lines."""
    editor: Any = None
    if sys.stdin.isatty() and sys.stdout.isatty():
        with suppress(ImportError):  # Windows
            import readline as editor

    def read() -> str:
        try:
            return input(_PROMPT if editor else "? ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return ""

    return read


_WIDTH = 160
"""Characters of a document that are printed."""


def retrieve(
    query: Annotated[str, argument("QUERY", "Words, or a question.")],
    system: Annotated[str, option("--system", "SYSTEM", "bm25, vss, graph-rank … (see kbnav systems).")] = "bm25",
    kb: Kb = None,
    k: Annotated[int, option("--k", "N", "How many nodes.", min=1)] = 10,
    given: Given = None,
    model: Model = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
    as_csv: Annotated[bool, flag("--csv", "Print CSV.")] = False,
) -> None:
    """Rank the nodes of an SKB for a query; the run is saved, and kbnav show prints what was done on the way.

    For example: kbnav retrieve --kb demo --set candidates=ship "spruce from a wreck"
    """
    from kbnav.models.scripted import NAME as STANDIN
    from kbnav.retrieval.base import retrieved
    from kbnav.sessions.session import saved

    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    settings = load(given, system, kb=kb, model=model, base_url=base_url)
    with open_skb(settings, f"the system {system}") as skb:
        found = retrieved(system, skb, settings, query, k=k)
        run = found.run
        if run.model == STANDIN:
            print("rules stood in for the language model; --model names one", file=sys.stderr)
        failed = [f"{step.call.tool}: {step.observation.partition(chr(10))[0]}" for step in run.steps if not step.ok]
        for line in dict.fromkeys(failed):
            print(line, file=sys.stderr)
        run = saved(found, settings)
        if said := " ".join(filter(None, (run.outcome.note, run.outcome.error))):  # also that it could not be saved
            print(f"kbnav: {said}", file=sys.stderr)
        _print_ranking(run, skb, as_json, as_csv)
    raise typer.Exit(0 if run.outcome.ranking else 1)


def node_fields(kb: KnowledgeBase, ranking: Ranking) -> list[Mapping[str, Any]]:
    """The fields of each node of a ranking; nothing where the knowledge base is no SKB."""
    from kbnav.knowledge.skb.kb import as_skb

    if kb_kind(kb) != "skb":
        return []
    skb = as_skb(kb, "CSV of nodes").skb
    found = [skb.documents[number] if number >= 0 else {} for number in map(skb.nodes.ids.find, ranking.ids)]
    return [{name: _cell(value) for name, value in fields.items()} for fields in found]


def _cell(value: Any) -> Any:
    """A field in CSV: a list's values between semicolons, what has fields of its own as JSON."""
    if isinstance(value, list):
        return "; ".join(str(_cell(one)) for one in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value


def _print_ranking(run: Run, kb: SkbKB, as_json: bool, as_csv: bool) -> None:
    ranking, skb = run.outcome.ranking or Ranking(), kb.skb
    if as_csv:
        sys.stdout.write(csv_text(ranking.lines(node_fields(kb, ranking)), end="\r\n"))
        return
    if as_json:
        nodes = [{**record, "document": _line(skb, record["id"])} for record in ranking.records()]
        tokens = {"prompt": run.usage.prompt, "completion": run.usage.completion}
        about = {"run": run.id, "query": run.question, "system": run.system, "model": run.model}
        print_json({**about, "ranking": nodes, "tokens": tokens, "seconds": run.seconds})
        return
    console = Console()
    for record in ranking.records():
        head = f"{record['rank']:>3}. {record['name']} ({record['type']}, {record['id']}) {record['score']:.4f}"
        console.print(Text(printable(head), style="bold"))
        console.print(Text("     " + printable(_line(skb, record["id"])), style="dim"), soft_wrap=False)
    if not len(ranking):
        said = run.steps[0].observation if len(run.steps) == 1 else "nothing found"
        console.print(Text(printable(said)))
    console.print(f"every step: kbnav show {run.id}", style="dim", highlight=False)


def _line(skb: SKB, node_id: str) -> str:
    """The beginning of a node's document, without its name and type but in STaRK's rendering."""
    from kbnav.knowledge.skb.rendering import indexed_text

    node = skb.number(node_id)
    text = skb.nodes.text(node) if skb.meta.style == "plain" else indexed_text(skb, node)
    return cut(text, _WIDTH)
