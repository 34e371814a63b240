"""The part of MediaWiki's action API that reads entities: names, documents and full-text search.

Parameters in, the JSON body out; no HTTP here. As on Wikidata, errors are bodies under status 200.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.documents import Documents
from kbnav.knowledge.wikidata.mirror.keywords import NoValues, UnreadKeyword, by_keywords, read_keywords
from kbnav.knowledge.wikidata.mirror.search import Index, Match
from kbnav.knowledge.wikidata.mirror.store import MirrorInfo

Parameters = Mapping[str, str]
Body = dict[str, Any]

_HELP = "See the API's documentation, https://www.mediawiki.org/wiki/API, for usage."
_KINDS = ("item", "property", "lexeme")
_NAMESPACES = {"0": "item", "120": "property", "146": "lexeme"}
_SPACES = {
    number: {"id": int(number), "defaultcontentmodel": f"wikibase-{kind}", "*": {"item": ""}.get(kind, kind.title())}
    for number, kind in _NAMESPACES.items()
}
_PREFIXES = {"item": "", "property": "Property:", "lexeme": "Lexeme:"}
_PROPS = frozenset({"info", "sitelinks", "aliases", "labels", "descriptions", "claims", "datatype"})
_ALWAYS = frozenset({"type", "id", "lemmas", "lexicalCategory", "language", "forms", "senses"})
_INFO = frozenset({"pageid", "ns", "title", "lastrevid", "modified", "redirects"})
_WRITES = re.compile(r"edit|delete|move|upload|rollback|undelete|protect|wb(set|create|edit|remove|merge|link).*")
_MAX_IDS = 50
_MAX_SEARCH = 300


class ApiError(Exception):
    """An error as the API reports it; ``details`` are further members of the error object."""

    def __init__(self, code: str, info: str, **details: Any) -> None:
        super().__init__(info)
        self.code, self.info, self.details = code, info, details


class ActionApi:
    """Answers ``/w/api.php``. Threads may share one."""

    def __init__(self, documents: Documents, index: Index, info: MirrorInfo) -> None:
        """Answer from the documents and the index of one mirror."""
        self._documents, self._index, self._info = documents, index, info
        self._site = info.concept_base.removesuffix("/entity/").replace(
            "http://www.wikidata.org", "https://www.wikidata.org"
        )

    def answer(self, parameters: Parameters) -> tuple[Body, str]:
        """The body for one request, and the code of the error in it (empty: none)."""
        second_version = parameters.get("formatversion", "1") in {"2", "latest"}
        try:
            if parameters.get("format", "json") not in {"json", "jsonfm"}:
                raise _bad_value("format", parameters["format"])
            return self._act(parameters, second_version=second_version), ""
        except ApiError as error:
            found = {"code": error.code, "info": error.info} | error.details
            found["docref" if second_version else "*"] = _HELP
            return {"error": found, "servedby": "kbnav"}, error.code

    def _act(self, parameters: Parameters, *, second_version: bool) -> Body:
        action = _required(parameters, "action")
        if action == "wbsearchentities":
            return self._search_entities(parameters)
        if action == "wbgetentities":
            return self._get_entities(parameters)
        if action == "query":
            return self._query(parameters, second_version=second_version)
        if _WRITES.fullmatch(action):
            raise ApiError("readonly", "The wiki is currently in read-only mode.", readonlyreason="A mirror.")
        raise _bad_value("action", action)

    def _search_entities(self, parameters: Parameters) -> Body:
        search, language = _required(parameters, "search"), _required(parameters, "language")
        kind = parameters.get("type", "item")
        if kind not in _KINDS:
            raise _bad_value("type", kind)
        limit, offset = _integer(parameters, "limit", 7, 1, 50), _integer(parameters, "continue", 0, 0, 10_000)
        strict = "strictlanguage" in parameters
        languages = [language, "mul"] if strict else _fallbacks(language)
        matches = self._index.by_name(search, kind, languages, strict=strict, limit=limit + 1, offset=offset)
        if offset == 0:
            matches = [*self._by_id(search, kind), *matches]
        shown = _fallbacks(parameters.get("uselang") or language)
        hits = [self._hit(match, kind, shown) for match in matches[:limit]]
        body: Body = {"searchinfo": {"search": search}, "search": hits}
        if len(matches) > limit:
            body["search-continue"] = offset + limit
        return body | {"success": 1}

    def _by_id(self, search: str, kind: str) -> Iterator[Match]:
        wanted = search.strip().upper()
        if v.is_entity_id(wanted) and v.entity_kind(wanted) == kind:
            found = self._documents.resolve(wanted)
            if found:
                yield Match(found, "entityId", "", wanted)

    def _hit(self, match: Match, kind: str, languages: Sequence[str]) -> Body:
        labels, descriptions = self._documents.names(match.id)
        title = _PREFIXES[kind] + match.id
        best = {"label": _first(labels, languages), "description": _first(descriptions, languages)}
        display = {name: text for name, text in best.items() if text}
        hit: Body = {
            "id": match.id,
            "title": title,
            "pageid": int(match.id[1:]),
            "display": display,
            "repository": "wikidata",
            "url": f"{self._site.partition(':')[2]}/wiki/{title}",
        }
        if kind == "property":
            hit["datatype"] = self._documents.datatype(match.id) or "string"
        hit["concepturi"] = self._info.concept_base + match.id
        hit |= {name: text["value"] for name, text in display.items()}
        hit["match"] = {"type": match.type} | ({"language": match.language} if match.language else {})
        hit["match"]["text"] = match.text
        return hit | ({"aliases": [match.text]} if match.type == "alias" else {})

    def _get_entities(self, parameters: Parameters) -> Body:
        ids = _many(parameters.get("ids", ""))
        if not ids:
            raise ApiError("param-missing", 'Either provide the Item "ids" or pairs of "sites" and "titles".')
        if len(ids) > _MAX_IDS:
            info = f'Too many values supplied for parameter "ids". The limit is {_MAX_IDS}.'
            raise ApiError("toomanyvalues", info, parameter="ids", limit=_MAX_IDS)
        for entity_id in ids:
            if not v.is_entity_id(entity_id.upper()):
                raise _no_such_entity(entity_id)
        props = set(_many(parameters["props"])) if "props" in parameters else set(_PROPS)
        entities = {}
        for entity_id in dict.fromkeys(entity_id.upper() for entity_id in ids):
            follow = parameters.get("redirects", "yes") != "no"
            document = self._document(entity_id, follow=follow, names_only=props.isdisjoint({"claims", "sitelinks"}))
            if document is None:
                entities[entity_id] = {"id": entity_id, "missing": ""}
                continue
            languages = _many(parameters.get("languages", ""))
            _keep_languages(document, languages, fallback="languagefallback" in parameters)
            entities[entity_id] = _keep_props(document, props)
        return {"entities": entities, "success": 1}

    def _document(self, entity_id: str, *, follow: bool, names_only: bool) -> Body | None:
        target = self._documents.resolve(entity_id)
        if not target or (target != entity_id and not follow):
            return None
        document = self._documents.document(target, names_only=names_only)
        if document is not None and target != entity_id:
            document["redirects"] = {"from": entity_id, "to": target}
        return document

    def _query(self, parameters: Parameters, *, second_version: bool) -> Body:
        done: Body = {"batchcomplete": True if second_version else ""}
        if "siteinfo" in _many(parameters.get("meta", "")):
            general = {
                "sitename": "Wikidata" if self._info.concept_base == WIKIDATA else self._site.partition("://")[2],
                "generator": "kbnav mirror",
                "server": self._site,
                "articlepath": "/wiki/$1",
                "wikibase-conceptbaseuri": self._info.concept_base,
                "time": self._info.built.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "readonly": True if second_version else "",
            }
            return done | {"query": {"general": general, "namespaces": _SPACES}}
        lists = _many(parameters.get("list", ""))
        if "search" in lists:
            return done | self._full_text(parameters)
        if lists:
            raise _bad_value("list", lists[0])
        return done

    def _full_text(self, parameters: Parameters) -> Body:
        search = parameters.get("srsearch", "").strip()
        if not search:
            raise _missing("srsearch")
        if len(search) > _MAX_SEARCH:
            info = f"Search request is longer than the maximum allowed length. ({len(search)} > {_MAX_SEARCH})"
            raise ApiError("cirrussearch-query-too-long", info)
        namespaces = _many(parameters.get("srnamespace", "0"))
        kinds = [kind for number, kind in _NAMESPACES.items() if number in namespaces or "*" in namespaces]
        limit, offset = _integer(parameters, "srlimit", 10, 1, 500), _integer(parameters, "sroffset", 0, 0, 10_000)
        ids, total = self._found(search, kinds, limit, offset)
        body: Body = {}
        if offset + len(ids) < total:
            body["continue"] = {"sroffset": offset + len(ids), "continue": "-||"}
        hits = [self._page(entity_id) for entity_id in ids]
        told: Body = {"totalhits": total}
        if not total and (alike := self._index.alike(search, kinds)):
            told["suggestion"] = told["suggestionsnippet"] = alike
        return body | {"query": {"searchinfo": told, "search": hits}}

    def _found(self, search: str, kinds: Sequence[str], limit: int, offset: int) -> tuple[list[str], int]:
        keywords, words = read_keywords(search)
        if not keywords:
            return self._index.by_words(search, kinds, limit=limit, offset=offset)
        try:
            found = by_keywords(self._documents, self._index, keywords, words, kinds)
        except UnreadKeyword as error:
            raise ApiError("badvalue", str(error)) from error
        except NoValues as error:
            info = "This mirror has no index of values; build it again with `kbnav mirror build`, which makes one."
            raise ApiError("novalues", info) from error
        return found[offset : offset + limit], len(found)

    def _page(self, entity_id: str) -> Body:
        kind = v.entity_kind(entity_id)
        descriptions = self._documents.names(entity_id)[1]
        snippet = (_first(descriptions, _fallbacks("en")) or {"value": ""})["value"]
        return {
            "ns": next(int(number) for number, name in _NAMESPACES.items() if name == kind),
            "title": _PREFIXES[kind] + entity_id,
            "pageid": int(entity_id[1:]),
            "size": len(snippet.encode()),
            "wordcount": len(snippet.split()),
            "snippet": snippet.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
            "timestamp": self._info.built.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _fallbacks(language: str) -> list[str]:
    """The languages in which a name is looked for, best first."""
    return list(dict.fromkeys([language, language.split("-")[0], "mul", "en"]))


def _first(texts: Mapping[str, str], languages: Sequence[str]) -> dict[str, str] | None:
    found = next((language for language in languages if language in texts), None)
    return None if found is None else {"value": texts[found], "language": found}


def _keep_languages(document: Body, languages: Sequence[str], *, fallback: bool) -> None:
    if not languages or "labels" not in document:
        return
    for field in ("labels", "descriptions"):
        texts, kept = document[field], {}
        for language in languages:
            chain = _fallbacks(language) if fallback else [language]
            found = next((texts[one] for one in chain if one in texts), None)
            if found is not None:
                same = found["language"] == language
                kept[language] = found if same else found | {"for-language": language}
        document[field] = kept
    document["aliases"] = {name: texts for name, texts in document["aliases"].items() if name in languages}


def _keep_props(document: Body, props: set[str]) -> Body:
    wanted = _ALWAYS | props | (_INFO if "info" in props else set())
    return {name: value for name, value in document.items() if name in wanted}


def _many(text: str) -> list[str]:
    """The values of a parameter with several: divided by ``|``, or by the separator that the value begins with."""
    if text.startswith("\x1f"):
        return text[1:].split("\x1f")
    return text.split("|") if text else []


def _required(parameters: Parameters, name: str) -> str:
    if not parameters.get(name, "").strip():
        raise _missing(name)
    return parameters[name]


def _integer(parameters: Parameters, name: str, default: int, least: int, most: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if text == "max":
        return most
    if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) is None:
        raise ApiError("badinteger", f'Invalid value "{text[:100]}" for integer parameter "{name}".')
    return min(max(int(text), least), most)


def _missing(name: str) -> ApiError:
    return ApiError("missingparam", f'The "{name}" parameter must be set.')


def _bad_value(name: str, value: str) -> ApiError:
    return ApiError("badvalue", f'Unrecognized value for parameter "{name}": {value[:100]}.')


def _no_such_entity(entity_id: str) -> ApiError:
    text = "Could not find such an entity."
    message = {"name": "wikibase-api-no-such-entity", "parameters": [], "html": {"*": text}}
    return ApiError("no-such-entity", f"{text} (Invalid ID: {entity_id[:100]})", messages=[message], id=entity_id[:100])
