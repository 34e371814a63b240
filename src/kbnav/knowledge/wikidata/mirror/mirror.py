"""A mirror, and what it answers when it is open: queries, the action API, and documents of entities.

It is a folder with ``meta.json``, the RDF store and the index of names. Documents are made from the triples of the
store; they have no references, which are queried for. The action API has the reads that kbnav asks for: parameters in,
the JSON body out. As on Wikidata, errors are bodies under status 200.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pyoxigraph import Literal, NamedNode, Store

from kbnav.answers.tables import AnswerTable, encodable
from kbnav.errors import DataError, KbnavError, QueryRefused, QuerySyntaxError, QueryTimeout, ServiceError
from kbnav.knowledge.base import current_meter
from kbnav.knowledge.replies import SIMPLER
from kbnav.knowledge.sparql.dialects import DIALECTS, GEOF_WIKIDATA
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.tokens import edited, tokenize
from kbnav.knowledge.sparql.vocabulary import WIKIDATA, add_prefixes, wikibase_prefixes
from kbnav.knowledge.wikidata.api import LONGEST_SEARCH, ActionApi, api_error
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.pool import LIMITS, Form, Gone, QueryError, QueryLimits, QueryPool, Result
from kbnav.knowledge.wikidata.mirror.rdf import BadValue, Node, Term, decode
from kbnav.knowledge.wikidata.mirror.search import BadKeyword, Index
from kbnav.models.cancellation import current_cancellation
from kbnav.runs.journal import read_document

FORMAT = 6
META = "meta.json"
TRIPLES = "triples"
NAMES = "names.sqlite"
MIRROR = replace(
    DIALECTS["oxigraph"],
    federation=False,
    closed=True,
    geo=GEOF_WIKIDATA,
    functions=DIALECTS["wdqs"].functions,
    days=v.DAYS,
)
"""What a mirror understands beyond what is rewritten: Oxigraph with the functions of ``worker``."""
BROKEN = (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError, sqlite3.Error)
"""What reading a damaged or vanished store or index may raise, deep in code that is right for a sound one."""
MOST_CACHED, LARGEST_CACHED = 1000, 1 << 14
"""Results of queries that are kept, and bytes of each."""
_CHANGING = re.compile(r"\b(?:NOW|RAND|UUID|STRUUID|BNODE)\s*\(", re.IGNORECASE)
"""What a query may hold that gives something else each time."""
Facts = Mapping[str, list[Term]]
"""The triples of one subject: objects by the IRI of the predicate."""
Body = dict[str, Any]

_DATATYPES = {f"{v.WIKIBASE}{iri}": name for name, iri in v.DATATYPES.items()}
_RANKS = {rank.value: name for name, rank in v.RANKS.items()}
_NAMES = (v.RDFS_LABEL, v.DESCRIPTION)
_TITLES = {"item": "", "property": "Property:"}
_NAMESPACES = {"item": 0, "property": 120}
_PROPS = ("labels", "descriptions", "aliases", "claims", "datatype")
_MAX_IDS = 50


class Source(BaseModel):
    """A file that a mirror was built from."""

    model_config = ConfigDict(frozen=True)

    name: str
    bytes: int
    sha256: str
    triples: int
    """Triples read from it, before those that another source has too are merged."""


class MirrorInfo(BaseModel):
    """What ``meta.json`` says of a mirror."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    built: datetime
    triples: int
    entities: int
    """Entities with a name: those that a search can find."""
    names: int
    """Labels and aliases, in all languages."""
    sources: tuple[Source, ...]
    concept_base: str = WIKIDATA
    """What the IRIs of its entities begin with."""
    newest: str = ""
    """When the entity was changed that was changed last (schema:dateModified), which is when the copy was taken; empty
    where the sources do not say it."""


def read_info(path: Path) -> MirrorInfo:
    """What is known of the mirror in a folder. Raises UsageError where there is none, DataError where it is damaged."""
    missing = f"no mirror in {path}: build one with `kbnav mirror build`"
    info: MirrorInfo = read_document(path / META, MirrorInfo, missing, FORMAT)
    if info.format != FORMAT:
        raise DataError(f"{path}: a mirror of format {info.format}, and this version reads {FORMAT}: build it again")
    for part in (TRIPLES, NAMES):
        if not (path / part).exists():
            raise DataError(f"{path}: {part} is missing: build the mirror again")
    return info


def open_store(path: Path) -> Store:
    """The RDF store of a mirror, to read from; several processes may. Raises DataError where it is damaged."""
    try:
        return Store.read_only(str(path / TRIPLES))
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path / TRIPLES}: not a readable store: {error}") from error


class Mirror:
    """The mirror in a folder. Threads may share one.

    Raises UsageError where there is no mirror, DataError where it is damaged.
    """

    def __init__(self, path: Path, limits: QueryLimits = LIMITS) -> None:
        """``limits`` are those of its queries."""
        self.info = read_info(path)
        self.prefixes = wikibase_prefixes(self.info.concept_base)
        self.documents = Documents(open_store(path), self.info.concept_base)
        self._index = Index(path / NAMES)
        self.pool = QueryPool(path / TRIPLES, limits, links=(path / NAMES, self.info.concept_base))
        self.pool.now = self.info.newest

    def close(self) -> None:
        """End the queries that run, and let go of the files."""
        self.pool.close()
        self._index.close()

    def answer(self, parameters: Mapping[str, str]) -> tuple[Body, str]:
        """The body for one request to ``/w/api.php``, and the code of the error in it (empty: none)."""
        actions = {
            "wbsearchentities": self._search_entities, "wbgetentities": self._get_entities, "query": self._query
        }  # fmt: skip
        try:
            action = actions.get(_required(parameters, "action"))
            if action is None:
                raise _bad_value("action", parameters["action"])
            return action(parameters), ""
        except ApiError as error:
            code, info = error.args
            return {"error": {"code": code, "info": info}, "servedby": "kbnav"}, code

    def _search_entities(self, parameters: Mapping[str, str]) -> Body:
        search, language = _required(parameters, "search"), _required(parameters, "language")
        kind = parameters.get("type", "item")
        if kind not in _TITLES:
            raise _bad_value("type", kind)
        found = self._index.by_name(search, kind, _fallbacks(language), limit=_integer(parameters, "limit", 7, 50))
        wanted = search.strip().upper()
        if v.is_entity_id(wanted) and v.entity_kind(wanted) == kind and (target := self.documents.resolve(wanted)):
            found.insert(0, (target, wanted))
        hits: list[Body] = []
        for entity_id, text in found:
            document = self.documents.document(entity_id, names_only=True)
            hit: Body = {"id": entity_id, "concepturi": self.info.concept_base + entity_id, "match": {"text": text}}
            hit |= {"datatype": document["datatype"]} if kind == "property" else {}
            for name, texts in (("label", document["labels"]), ("description", document["descriptions"])):
                for code in _fallbacks(parameters.get("uselang") or language):
                    if code in texts:
                        hit[name] = texts[code]["value"]
                        break
            hits.append(hit)
        return {"searchinfo": {"search": search}, "search": hits, "success": 1}

    def _get_entities(self, parameters: Mapping[str, str]) -> Body:
        ids = _required(parameters, "ids").upper().split("|")
        if len(ids) > _MAX_IDS:
            raise ApiError("toomanyvalues", f'Too many values for the parameter "ids". The limit is {_MAX_IDS}.')
        for entity_id in ids:
            if not v.is_entity_id(entity_id):
                raise ApiError("no-such-entity", f"Could not find such an entity. (Invalid ID: {entity_id[:100]})")
        props = set(parameters["props"].split("|") if "props" in parameters else _PROPS)
        languages = set(filter(None, parameters.get("languages", "").split("|")))
        entities: dict[str, Body] = {}
        for entity_id in dict.fromkeys(ids):
            target = self.documents.resolve(entity_id)
            if not target:
                entities[entity_id] = {"id": entity_id, "missing": ""}
                continue
            document = self.documents.document(target, names_only=props.isdisjoint({"claims", "aliases"}))
            for name in ("labels", "descriptions", "aliases"):
                document[name] = {code: text for code, text in document[name].items() if code in (languages or {code})}
            kept = {name: document[name] for name in ("type", "id", *_PROPS) if name in document}
            entities[entity_id] = {name: one for name, one in kept.items() if name in {"type", "id", *props}}
            if target != entity_id:
                entities[entity_id]["redirects"] = {"from": entity_id, "to": target}
        return {"entities": entities, "success": 1}

    def _query(self, parameters: Mapping[str, str]) -> Body:
        if "siteinfo" in parameters.get("meta", "").split("|"):
            general = {
                "generator": "kbnav mirror",
                "server": self.info.concept_base.removesuffix("/entity/"),
                "articlepath": "/wiki/$1",
                "wikibase-conceptbaseuri": self.info.concept_base,
                "time": self.info.built.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            spaces = {
                str(number): {"id": number, "defaultcontentmodel": f"wikibase-{kind}", "*": _TITLES[kind].rstrip(":")}
                for kind, number in _NAMESPACES.items()
            }
            return {"query": {"general": general, "namespaces": spaces}}
        if parameters.get("list") != "search":
            raise _bad_value("list", parameters.get("list", ""))
        search = _required(parameters, "srsearch")
        if len(search) > LONGEST_SEARCH:
            raise ApiError("cirrussearch-query-too-long", f"The search is longer than {LONGEST_SEARCH} characters.")
        wanted = parameters.get("srnamespace", "0").split("|")
        kinds = [kind for kind, number in _NAMESPACES.items() if str(number) in wanted]
        try:
            ids = self._index.by_words(search, kinds, limit=_integer(parameters, "srlimit", 10, 500))
        except BadKeyword as error:
            raise ApiError("badvalue", str(error)) from error
        info: Body = {"suggestion": alike} if not ids and (alike := self._index.alike(search, kinds)) else {}
        kind_of = {one: v.entity_kind(one) for one in ids}
        pages = [{"ns": _NAMESPACES[kind], "title": _TITLES[kind] + one} for one, kind in kind_of.items()]
        return {"query": {"searchinfo": info, "search": pages}}


def run_query(
    pool: QueryPool,
    query: str,
    prefixes: Mapping[str, str],
    *,
    form: Form = "json",
    graph_form: Form = "ntriples",
    language: str = "en",
    services: Collection[str] = (),
    graph: str = "",
    gone: Gone | None = None,
) -> Result:
    """Run one query as Wikidata's service understands it; ``prefixes`` need not be declared.

    Raises QuerySyntaxError and QueryRefused before it runs, and QueryError.
    """
    prepared = prepare(query, MIRROR, services=services, prefixes=prefixes, language=language).text
    if pool.now:  # what is later than the copy is not in it
        tokens = tokenize(prepared)
        calls = [one for one in zip(tokens, tokens[1:], tokens[2:], strict=False) if one[0].is_word("NOW")]
        time = f'"{pool.now}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
        prepared = edited(prepared, {(name.start, last.end): time for name, _, last in calls})
    return pool.query(prepared, form, graph_form, graph=graph, gone=gone)


class LocalApi(ActionApi):
    """A mirror's action API, asked in this process. Raises ServiceError where the mirror is damaged."""

    def __init__(self, mirror: Mirror, namespaces: Mapping[str, str]) -> None:
        self._mirror, self._namespaces = mirror, namespaces

    def call(self, **params: str) -> Mapping[str, Any]:
        """See ``ActionApi``."""
        current_meter().count("api")
        failure = ""
        try:
            body, code = self._mirror.answer({name: encodable(value) for name, value in params.items()})
        except BROKEN as error:
            failure = f"the mirror failed: {type(error).__name__}: {error}"
        if failure:
            raise ServiceError(failure)  # without its cause: what the frames of that hold must not leave this thread
        _check_run()
        if code:
            raise api_error("the mirror", body["error"])
        return body


class LocalQueries:
    """A mirror's queries, run by this process's own pool; as ``QueryService``. Threads may share one.

    The results that were asked for last are kept: a mirror's data do not change.
    """

    engine = DIALECTS["wdqs"].engine
    """The name of the engine whose language it understands."""

    def __init__(self, mirror: Mirror, prefixes: Mapping[str, str], allowed: Collection[str], name: str) -> None:
        self._mirror, self._prefixes, self._allowed, self._name = mirror, prefixes, allowed, name
        self._lock = threading.Lock()
        self._recent: dict[tuple[str, str], Result] = {}

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """The result of a model's or person's query. Raises what ``prepare`` raises, QueryTimeout, ServiceError."""
        current_meter().count("sparql")
        with self._lock:
            result = self._recent.get((query, language))
        if result is None:
            pool = self._mirror.pool
            try:
                result = run_query(pool, query, self._prefixes, language=language, services=self._allowed)
            except QueryError as error:
                _check_run()
                raise self._reported(error) from error
            if len(result.body) <= LARGEST_CACHED and not _CHANGING.search(query):
                with self._lock:
                    self._recent[query, language] = result
                    if len(self._recent) > MOST_CACHED:
                        del self._recent[next(iter(self._recent))]
        return result.table()

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""
        return self.run(add_prefixes(query, self._prefixes))

    def _reported(self, error: QueryError) -> KbnavError:
        match error.reason:
            case "timeout":
                limit = f"the query was stopped after {self._mirror.pool.timeout:g} s, the limit of this copy"
                return QueryTimeout(f"{limit}; make it simpler: {SIMPLER}")
            case "syntax":
                return QuerySyntaxError(f"syntax error: {error}")
            case "busy":
                return ServiceError(f"{self._name} does not answer now: {error}; ask again later")
            case "broken":
                return ServiceError(f"the mirror failed: {error}")
        return QueryRefused(f"the query service refuses the query: {error}")


def _check_run() -> None:
    """Raise Stopped, or CancelledError, where the run is over that this code is a part of."""
    if cancellation := current_cancellation():
        cancellation.check()


# Entity documents from triples


class Documents:
    """Reads items and properties from a store. Threads may share one."""

    def __init__(self, store: Store, concept_base: str = WIKIDATA) -> None:
        """Read from ``store``, whose entities' IRIs begin with ``concept_base``."""
        self._store = store
        self._n = v.Namespaces.of(concept_base)
        self.datatype = cache(self._datatype)
        """The datatype of a property's values (``wikibase-item``); empty where the store does not have it."""
        self._names = lru_cache(1_000)(partial(self._read, names_only=True))
        """Names of what is shown again and again, such as properties: a mirror's data do not change."""
        self.resolve = lru_cache(1_000)(self._resolve)
        """The id that an id leads to: its own, that of the entity it was merged into, or empty where there is none."""

    def _resolve(self, entity_id: str) -> str:
        for _ in range(8):  # redirects of redirects are rare, and circles are possible
            subject = NamedNode(self._n.wd + entity_id)
            moved = next(iter(self._store.quads_for_pattern(subject, v.SAME_AS, None, None)), None)
            if moved is None or not (target := self._n.local_id(_value(moved.object))):
                known = next(iter(self._store.quads_for_pattern(subject, None, None, None)), None)
                return entity_id if known else ""
            entity_id = target
        return ""

    def _datatype(self, property_id: str) -> str:
        subject = NamedNode(self._n.wd + property_id)
        quad = next(iter(self._store.quads_for_pattern(subject, v.PROPERTY_TYPE, None, None)), None)
        return _DATATYPES.get(_value(quad.object) if quad else "", "")

    def document(self, entity_id: str, *, names_only: bool = False) -> Body:
        """The document of an entity that is there; ``names_only`` leaves out its statements and aliases."""
        return {**self._names(entity_id)} if names_only else self._read(entity_id)

    def _read(self, entity_id: str, *, names_only: bool = False) -> Body:
        kind = v.entity_kind(entity_id)
        facts = self._facts(NamedNode(self._n.wd + entity_id), _NAMES if names_only else (None,))
        texts: dict[str, dict[str, list[Body]]] = {}
        for predicate in (*_NAMES, v.ALT_LABEL):
            by_language: dict[str, list[Body]] = defaultdict(list)
            for term in facts.get(predicate.value, ()):
                if isinstance(term, Literal) and term.language:
                    by_language[term.language].append({"language": term.language, "value": term.value})
            texts[predicate.value] = dict(sorted(by_language.items()))
        document: Body = {"type": kind, "id": entity_id}
        if kind == "property":
            document["datatype"] = self.datatype(entity_id) or "string"
        for name, predicate in (("labels", v.RDFS_LABEL), ("descriptions", v.DESCRIPTION)):
            document[name] = {code: one[-1] for code, one in texts[predicate.value].items()}
        document["aliases"] = texts[v.ALT_LABEL.value]
        document["claims"] = {} if names_only else self._claims(entity_id, facts)
        return document

    def _facts(self, subject: Any, predicates: Sequence[NamedNode | None] = (None,)) -> dict[str, list[Term]]:
        facts: dict[str, list[Term]] = defaultdict(list)
        for predicate in predicates:
            for quad in self._store.quads_for_pattern(subject, predicate, None, None):
                facts[quad.predicate.value].append(quad.object)
        return facts

    def _claims(self, entity_id: str, facts: Facts) -> dict[str, list[Body]]:
        """Statements by property: those with a node, then one for each truthy triple that none of these accounts for.

        A statement node that says neither a value nor that there is none is left out.
        """
        claims: dict[str, list[Body]] = {}
        ends = [iri[len(form) :] for iri in facts for form in (self._n.wdt, self._n.p) if iri.startswith(form)]
        for prop in sorted(filter(v.is_entity_id, set(ends)), key=_number):
            statements: list[Body] = []
            stated: set[Term] = set()
            for node in facts.get(self._n.p + prop, ()):
                about = self._facts(node)
                values = about.get(self._n.ps + prop, [])
                if values:
                    main = self._snak(prop, values[0], about.get(self._n.psv + prop, ()))
                elif NamedNode(self._n.wdno + prop) in about.get(v.RDF_TYPE.value, ()):
                    main = self._snak(prop)
                else:
                    continue
                stated.update(values)
                statements.append(self._statement(_value(node), main, about))
            # A value that is not known is a blank node, another one in each triple; one statement is enough for them.
            vague = any(statement["mainsnak"]["snaktype"] == "somevalue" for statement in statements)
            for term in facts.get(self._n.wdt + prop, ()):
                if term not in stated and not (vague and _is_unknown(term)):
                    digest = hashlib.md5(f"{entity_id} {prop} {term}".encode(), usedforsecurity=False).hexdigest()
                    main, name = self._snak(prop, term), f"{entity_id}$truthy-{digest}"
                    statements.append({"mainsnak": main, "type": "statement", "id": name, "rank": "normal"})
            if statements:
                claims[prop] = statements
        return claims

    def _statement(self, iri: str, main: Mapping[str, Any], about: Facts) -> Body:
        simple, full = self._n.pq, self._n.pqv
        props = sorted((iri[len(simple) :] for iri in about if iri.startswith(simple)), key=_number)
        qualifiers = {
            prop: [self._snak(prop, term, about.get(full + prop, ())) for term in about[simple + prop]]
            for prop in props
            if v.is_entity_id(prop)
        }
        for term in about.get(v.RDF_TYPE.value, ()):
            prop = _value(term).removeprefix(self._n.wdno)
            # The main value may be the one that does not exist; a qualifier with its property is as good as unseen.
            if v.is_entity_id(prop) and not (prop == main["property"] and self._n.ps + prop not in about):
                qualifiers.setdefault(prop, []).append(self._snak(prop))
        rank = next((_RANKS.get(_value(term), "normal") for term in about.get(v.RANK.value, ())), "normal")
        name = iri.removeprefix(self._n.wds).replace("-", "$", 1)
        statement: Body = {"mainsnak": main, "type": "statement", "id": name, "rank": rank}
        if qualifiers:
            statement |= {"qualifiers": qualifiers, "qualifiers-order": list(qualifiers)}
        return statement

    def _snak(self, prop: str, term: Term | None = None, nodes: Sequence[Term] = ()) -> Body:
        """A value, of whose ``nodes`` one may belong to the simple term; without a term, that there is none."""
        datatype = self.datatype(prop)
        if term is None or _is_unknown(term):
            kind = "novalue" if term is None else "somevalue"
            return {"snaktype": kind, "property": prop} | ({"datatype": datatype} if datatype else {})
        node: Node | None = None
        for one in nodes:
            facts = {iri.removeprefix(v.WIKIBASE): terms[0] for iri, terms in self._facts(one).items()}
            point = f"Point({_value(facts.get('geoLongitude'))} {_value(facts.get('geoLatitude'))})"
            same = term in (facts.get("timeValue"), facts.get("quantityAmount")) or _value(term).endswith(point)
            if len(nodes) == 1 or same:
                node = facts
                break
        try:
            datatype, value = decode(datatype, term, node, self._n)
        except BadValue:  # a term that no datatype has; its text is still worth showing
            datatype, value = "string", {"value": _value(term), "type": "string"}
        return {"snaktype": "value", "property": prop, "datavalue": value, "datatype": datatype}


def _is_unknown(term: Term) -> bool:
    """Whether a term stands for a value that is not known: a blank node, or what the query service makes of one."""
    return not isinstance(term, NamedNode | Literal) or (isinstance(term, NamedNode) and v.GENID in term.value)


def _number(entity_id: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", entity_id)))


def _value(term: Any) -> str:
    return str(term.value) if isinstance(term, NamedNode | Literal) else ""


# The action API


class ApiError(Exception):
    """An error as the API reports it: its code, and what it says."""


def _fallbacks(language: str) -> list[str]:
    """The languages in which a name is looked for, best first."""
    return list(dict.fromkeys([language, language.split("-")[0], "mul", "en"]))


def _required(parameters: Mapping[str, str], name: str) -> str:
    if not parameters.get(name, "").strip():
        raise ApiError("missingparam", f'The "{name}" parameter must be set.')
    return parameters[name]


def _integer(parameters: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = parameters.get(name, "") or str(default)
    if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) is None:
        raise ApiError("badinteger", f'Invalid value "{text[:100]}" for integer parameter "{name}".')
    return min(max(int(text), 1), most)


def _bad_value(name: str, value: str) -> ApiError:
    return ApiError("badvalue", f'Unrecognized value for parameter "{name}": {value[:100]}.')
