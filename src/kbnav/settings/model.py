"""Every setting, in one typed model: from arguments, the environment (``KBNAV_…``), or ``kbnav.toml``, in that order.

A copy without secrets is saved with every run.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from kbnav.errors import CredentialsError, UsageError
from kbnav.settings.plugins import did_you_mean, name_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class Strict(BaseModel):
    """A group of settings, or what is read from a file: nothing of it is unknown, and nothing changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def without_credentials(address: str) -> str:
    """The address as it is. Raises ValueError where it holds a user's name or password, which runs would then hold."""
    if "://" in address and "@" in urlsplit(address).netloc:
        raise ValueError("an address may not hold a user's name and password: it is saved with every run")
    return address


Address = Annotated[str, AfterValidator(without_credentials)]


class Endpoints(Strict):
    """Where a Wikibase is; the defaults are Wikidata's. A local mirror, QLever or any Wikibase works as well."""

    sparql: Address = "https://query.wikidata.org/sparql"
    api: Address = "https://www.wikidata.org/w/api.php"
    query_page: Address = "https://query.wikidata.org/#"
    """The query's text, percent-encoded, is put behind it to make a link a person can open."""
    entity_page: Address = "https://www.wikidata.org/wiki/"
    dialect: str = "auto"
    """Name of the dialect of ``sparql``; ``auto``: known by its address, or found out by a few queries."""
    vector: Address = ""
    """Base URL of a Wikidata vector database; empty: ``vector_query`` is not offered."""


class SparqlSource(Strict):
    """A SPARQL endpoint with a name, ``[sparql.NAME]`` in ``kbnav.toml``."""

    url: str
    """Address of its SPARQL protocol."""
    title: str = ""
    """What people call it, in place of its name."""
    examples: tuple[str, ...] = ()
    """Questions that are offered; empty: they are made of the data."""
    graph: str | tuple[str, ...] = ""
    """Graph, or graphs, that names and data come from alone; empty: the endpoint's own default."""
    prefixes: dict[str, str] = {}
    """Prefixes, and the namespaces that they stand for; ids are shown by them, and queries need not declare them."""
    index: str = ""
    """File of its name index, as ``kbnav sparql index`` made it; empty: the endpoint is searched itself."""
    labels: tuple[str, ...] = ()
    """IRIs of properties that hold names; ``rdfs:label`` and the like are tried after them."""
    credentials_variable: str = ""
    """Environment variable that holds ``user:password``, or a bearer token, which has no colon."""
    query_page: str = ""
    """Address of a page that opens a query; the query's text, percent-encoded, is put behind it."""
    dialect: str = "auto"
    """Name of its dialect; ``auto``: found out by a few queries, and kept under ``home`` for 30 days."""

    def as_toml(self, name: str) -> str:
        """Its table for ``kbnav.toml``, without what is as by default."""
        values = self.model_dump(mode="json", exclude_defaults=True).items()
        told = (f"{key} = {json.dumps(one, ensure_ascii=False, separators=(', ', ' = '))}" for key, one in values)
        return "\n".join([f"[sparql.{name}]", *told])


class Wikibase(Strict):
    """What kbnav finds out of a Wikibase that is not Wikidata; what is set here goes before that."""

    concept_base: str = ""
    """What the IRIs of entities begin with, as ``https://kb.example/entity/``."""
    prefixes: dict[str, str] = {}
    """Prefixes that queries need not declare, beside those that follow from the concept base."""
    ids: dict[str, str] = {}
    """Ids in place of Wikidata's, as ``P31 = "P1"`` for instance of."""


class Limits(Strict):
    """The client-side twin of the query service's limits, per User-Agent and address."""

    query_seconds_per_minute: float = 60.0
    api_requests_per_minute: int = Field(default=180, ge=0)
    """Requests to the action APIs of all of Wikimedia's wikis together, or of another host; 0: no limit."""
    query_timeout: float = 60.0
    request_timeout: float = 30.0
    retries: int = 4


Rule = Literal["rollback", "premature_finish", "hint", "escalate", "parallel", "free_finish", "told"]


class Budget(Strict):
    """How long a run may go on (SPINACH, section 4.2) and how it goes back.

    A rule may also be given by itself, as in ``rollback = false``:

    - ``rollback``: a repeated action takes the path back; ``escalate``: right after another twice as far;
    - ``premature_finish``: a finish is refused while no query has rows;
    - ``hint``: what was taken back is named to the model; ``told``: so are its actions so far, at every turn;
    - ``parallel``: a turn may hold several calls;
    - ``free_finish``: finishing costs no action, and one more turn is given for it.
    """

    steps: int = Field(default=15, ge=1)
    """Turns of the model on the path; calls that it makes side by side are one."""
    actions: int = Field(default=30, ge=1)
    """Calls in all, each counted, also those taken back."""
    rollback_depth: int = Field(default=2, ge=1)
    published: bool = False
    """Go back as SPINACH's published program: a premature finish takes all steps back, only the last four actions count
    as repeated, and the model is shown the last ten."""
    without: tuple[Rule, ...] = ()
    """Rules that do not hold."""
    requests: int = Field(default=400, ge=0)
    """Requests to the knowledge base that a question may cost; 0: as many as it takes."""
    seconds: float = Field(default=0.0, ge=0)
    """Seconds that a question may take, after which the best so far is the answer; 0: as long as it takes."""
    dollars: float = Field(default=0.0, ge=0)
    """US dollars that a question may cost; then the best so far is the answer. Needs the model's price. 0: no limit."""

    @model_validator(mode="before")
    @classmethod
    def _read_rules(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        rules = [name for name in given if name in get_args(Rule)]
        off = [name for name in rules if not TypeAdapter(bool).validate_python(given[name])]
        rest = {name: value for name, value in given.items() if name not in rules}
        return rest | {"without": (*rest.get("without", ()), *off)} if rules else rest

    def holds(self, rule: Rule) -> bool:
        """Whether a rule holds."""
        return rule not in self.without


class Price(Strict):
    """US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """Of prompt tokens that the endpoint had cached; none: they cost what others do."""


class ModelEndpoint(Strict):
    """An OpenAI-compatible endpoint with a name, ``[model_endpoints.NAME]`` in ``kbnav.toml``."""

    url: Address
    """Its base URL, as ``base_url``."""
    key_variable: str = ""
    """Environment variable that holds its key; empty: it is sent none."""


class Web(Strict):
    """The chat page and its APIs, ``kbnav serve`` and ``kbnav mcp --http``."""

    host: str = "127.0.0.1"
    """Address to listen on; any but a loopback one needs ``tokens`` or ``proxy_header``, and ``hosts``."""
    port: int = 8080
    kbs: tuple[str, ...] = ()
    """Knowledge bases to choose from, each as ``kb``; empty: ``kb`` alone."""
    models: tuple[str, ...] = ()
    """Models to choose from, each as ``model``; empty: ``model`` alone."""
    systems: tuple[str, ...] = ()
    """Agents to choose from, by name or as ``module:function``; empty: all that fit the knowledge base."""
    hosts: tuple[str, ...] = ()
    """Names by which browsers reach the server, beside the loopback ones; requests for other names are refused."""
    tokens: dict[str, SecretStr] = {}
    """A secret of at least 16 characters for each user, by the user's name."""
    proxy_header: str = ""
    """Header in which a proxy that logs people in names the user, such as ``X-Forwarded-User``."""
    proxy_addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses of that proxy, or networks such as ``10.0.0.0/8``; its header is believed from nowhere else."""
    workers: int = Field(default=1, ge=1)
    """Processes; more than one needs ``database``."""
    runs: int = Field(default=8, ge=1)
    """Questions that one process answers at once; others wait for their turn, which goes round by user."""
    runs_per_user: int = Field(default=4, ge=1)
    """Questions of one user that are answered or wait at once."""
    questions_per_day: int = Field(default=500, ge=1)
    """Questions of one user in 24 hours."""
    question_seconds: float = Field(default=600.0, gt=0)
    question_dollars: float = Field(default=1.0, gt=0)
    """What one question may cost, where the model's price is among ``prices``."""
    datasets: dict[str, str] = {}
    """Names of data sets in the Text2SPARQL API, and the knowledge base of each."""


class Bot(Strict):
    """The bot that answers on a wiki's talk pages, ``kbnav bot``."""

    api: str = ""
    """``api.php`` of the wiki."""
    user: str = ""
    """Bot password's name, ``Account@name``."""
    password: SecretStr = SecretStr("")
    pages: tuple[str, ...] = ()
    """Pages on which every new section is a question, beside the bot's own talk page."""
    flagged: bool = True
    """Whether the account has the bot flag; edits are refused where it lacks what is said here."""
    task_page: str = ""
    """Page that describes the task, named in every edit summary; empty: the bot's user page."""
    questions_per_day: int = Field(default=500, ge=1)
    questions_per_user_per_day: int = Field(default=20, ge=1)
    entity_link: str = ""
    """Wikitext of an entity's link, its page in place of ``{id}``: ``[[{id}]]`` on Wikidata, ``[[d:{id}]]`` elsewhere;
    empty: no link."""


SETTINGS_FILE = "kbnav.toml"
LIVE, BUNDLED = ("wikidata", "wikidata-qlever"), ("mini", "demo")
"""Knowledge bases that have a name of their own."""
_FILES = re.compile(r"home|benchmarks|notes|sparql\..*\.index")
_KBS = re.compile(r"kb|web\.(?:kbs|datasets\..*)")
"""Settings that name files, and those that may."""
OFFLINE = "offline"
"""The value of ``model`` with which rules answer, and no model is asked."""
REPLAY = "replay:"
"""What stands before the id of a saved run that is repeated in place of a model."""


_USER = re.compile(r"(?<=://)[^/@\s]+@")
"""What may stand before the host of an address: a user and a password."""
Sampling = Annotated[float | None, BeforeValidator(lambda given: None if given == "none" else given)]
"""A number, or ``none``: it is not sent, so that the endpoint's own holds; some endpoints take no other."""


SEPARATOR = " + "
"""Between the names of knowledge bases that are asked together."""


def kb_names(kb: str) -> list[str]:
    """The knowledge bases that a setting ``kb`` names. Raises UsageError for one that is named twice, or none."""
    names = [name.strip() for name in kb.split(SEPARATOR)]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice:
        raise UsageError(f"the knowledge base {twice} is named twice: name each once")
    if len(names) > 1 and not all(names):
        raise UsageError(f"{kb!r}: a name is missing beside the +")
    return names


def _together(given: object) -> object:
    """One text of several names."""
    named = isinstance(given, (list, tuple)) and given and all(isinstance(one, str) for one in given)
    return SEPARATOR.join(given) if named else given  # type: ignore[arg-type]


def own_names(model: BaseModel) -> list[str]:
    """What ``dir`` shows of a model: none of pydantic's many names, and nothing private."""
    return [
        name for name in object.__dir__(model) if name[:2] == "__" or not (name[0] == "_" or hasattr(BaseModel, name))
    ]


class Settings(BaseSettings):
    """All settings of kbnav, as ``kbnav.Settings(kb="demo", language="de")``."""

    __dir__ = own_names

    model_config = SettingsConfigDict(
        env_prefix="KBNAV_",
        env_nested_delimiter="__",
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    contact: str = ""
    """Operator's e-mail address or page, for the User-Agent; live use of Wikidata needs it."""
    kb: Annotated[str, BeforeValidator(_together)] = "mini"
    """``mini`` (the bundled mirror), ``demo`` (the bundled SKB), ``wikidata``, a name of ``sparql``, the folder of an
    SKB or a mirror, or a URL: a SPARQL endpoint's, a served mirror's, or that of a Wikibase with Wikidata's paths.
    A list of these, or ``"wikidata + ck25"``, asks several together."""
    language: str = "auto"
    """Language code of labels and of the answer; ``auto``: that of the question."""
    endpoints: Endpoints = Endpoints()
    sparql: dict[str, SparqlSource] = {}
    """SPARQL endpoints by the names under which ``kb`` knows them."""
    wikibase: Wikibase = Wikibase()
    limits: Limits = Limits()
    budget: Budget = Budget()
    checks: bool = True
    """Whether rules look for what speaks against an answer before it is given."""
    web: Web = Web()
    bot: Bot = Bot()
    services: tuple[str, ...] = (
        "http://wikiba.se/ontology#label",
        "http://wikiba.se/ontology#around",
        "http://wikiba.se/ontology#box",
        "http://wikiba.se/ontology#mwapi",
        "http://www.bigdata.com/rdf/gas#service",
        "http://www.bigdata.com/rdf#sample",
        "http://www.bigdata.com/rdf#slice",
        "https://query.wikidata.org/subgraph/wikidata_main",
        "https://query.wikidata.org/subgraph/scholarly_articles",
    )
    """IRIs that SERVICE may name; add a federated endpoint's here."""

    model: str = OFFLINE
    base_url: str = ""
    """OpenAI-compatible endpoint; empty: OpenAI's."""
    api_key: SecretStr = Field(
        default=SecretStr(""), validation_alias=AliasChoices("api_key", "KBNAV_API_KEY", "OPENAI_API_KEY")
    )
    temperature: Sampling = 1.0
    """Of the policy (SPINACH, appendix D); all other calls but samples have 0. ``none``: no call sends one."""
    top_p: Sampling = 0.9
    model_timeout: float = 120.0
    model_retries: int = 4
    model_window: int = Field(default=128_000, ge=256)
    """Tokens that the model reads and writes at once; what a retrieval system sends beyond it is cut, and said."""
    model_jobs: int = Field(default=8, ge=1)
    """Calls of the model that are under way at once, outside the policy."""
    options: dict[str, Any] = {}
    """Options of the system that answers, by name, as ``--set`` gives them."""
    model_endpoints: dict[str, ModelEndpoint] = {}
    """Endpoints of models beside ``base_url``, for commands that ask several models: ``NAME@ENDPOINT``."""
    prices: dict[str, Price] = {}
    pruning: Literal["ranking", "model", "none"] = "ranking"
    """How entries are cut to what matters: ranked against the question, by a model (SPINACH, section 4.1), or not."""
    notes: tuple[Path, ...] = ()
    """Files of notes on the knowledge base."""
    without_tools: tuple[str, ...] = ()
    """Tools that are not offered."""
    with_tools: tuple[str, ...] = ()
    """Tools added to the system's: of other packages, by name, or your own, as ``module:function``."""

    access_token: SecretStr = SecretStr("")
    """OAuth 2 token, owner-only, of an account of the wiki of ``endpoints.api``, which raises its limit."""

    home: Path = Field(default_factory=lambda: Path.home() / ".local" / "state" / "kbnav")
    """Folder of saved runs, chat sessions and the HTTP cache."""
    save_runs: bool = True
    """Whether runs are saved; those of the page always are."""
    benchmarks: Path = Path("benchmarks")
    """Folder of the published benchmarks' files, for ``kbnav eval``."""
    cache_age: float = 7 * 24 * 3600.0
    """Seconds for which a service's cached answer is used; 0: none is, and no model's reply is kept either."""
    database: SecretStr = SecretStr("")
    """URL of a PostgreSQL database that machines share: the page's sessions, cached answers, replies and limits;
    empty: all of it is under ``home``."""

    _chat: Any = PrivateAttr(default=None)
    _tools: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _said(cls, given: Any, read: ModelWrapValidatorHandler[Settings]) -> Settings:
        """Raises UsageError naming a setting that is wrong."""
        try:
            return read(given)
        except ValidationError as error:
            raise UsageError("settings: " + "; ".join(map(_wrong, error.errors()))) from error

    @property
    def chat(self) -> BaseChatModel | None:
        """A chat model made elsewhere, which is asked in place of the one that ``model`` names."""
        return self._chat  # type: ignore[no-any-return]

    @property
    def own_tools(self) -> tuple[Any, ...]:
        """The tools of ``with_tools``: their names, or objects made elsewhere."""
        return tuple(self._tools.get(name, name) for name in self.with_tools)

    def offering(self, tools: Sequence[Any]) -> Settings:
        """The same settings with more tools: their names, functions, or LangChain tools."""
        objects = {name_of(tool): tool for tool in tools if not isinstance(tool, str)}
        names = (tool if isinstance(tool, str) else name_of(tool) for tool in tools)
        changed = self.model_copy(update={"with_tools": (*self.with_tools, *names)})
        changed._tools = {**self._tools, **objects}
        return changed

    def asking(self, model: str | BaseChatModel) -> Settings:
        """The same settings with another model: its name, or a LangChain chat model, whose name is then found out.

        Raises UsageError for anything else.
        """
        if not isinstance(model, str) and not hasattr(model, "_llm_type"):
            raise UsageError(f"model= takes a name or a chat model of LangChain, not {type(model).__name__}")
        name, chat = (model, None) if isinstance(model, str) else ("", model)
        for attribute in ("model_name", "model", "model_id"):  # chat models have no common name for their name
            found = getattr(chat, attribute, None)
            name = name or (found if isinstance(found, str) else "")
        changed = self.model_copy(update={"model": name or chat._llm_type if chat else name})
        changed._chat = chat
        return changed

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments first, then the environment, then ``kbnav.toml``."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, _in_file(settings_file()))

    @property
    def other_temperature(self) -> float | None:
        """The temperature of calls that are neither the policy's nor samples; None: none is sent, by no call."""
        return None if self.temperature is None else 0.0

    def shared_path(self, name: str) -> Path | str:
        """Where what machines may share is kept: the file of this name under ``home``, or the URL of a database."""
        return self.database.get_secret_value() or self.home / name

    @property
    def source(self) -> SparqlSource:
        """The table of the endpoint that ``kb`` names; one without an address where it names none."""
        return self.sparql.get(self.kb) or SparqlSource(url="")

    def source_of(self, kb: str) -> tuple[str, SparqlSource]:
        """The name and the table of an endpoint, by name or address (without a name, ``mine``). Raises UsageError."""
        if kb not in self.sparql and "://" not in kb:
            meant = did_you_mean(kb, self.sparql)
            raise UsageError(f"no SPARQL endpoint {kb!r}: give its address, or a name of kbnav.toml{meant}")
        known = (pair for pair in self.sparql.items() if kb in (pair[0], pair[1].url))
        return next(known, ("mine", SparqlSource(url=kb)))

    def check_key(self) -> None:
        """Raise CredentialsError where a model of OpenAI's own endpoint is named and no key; costs no import."""
        named = self.model != OFFLINE and not self.model.startswith(REPLAY)
        if named and self.chat is None and not self.base_url and not self.api_key.get_secret_value():
            raise CredentialsError(
                f"the model {self.model!r} needs a key: set OPENAI_API_KEY (or KBNAV_API_KEY), "
                "or name another endpoint with --base-url (base_url= in Python); "
                'where the system needs no model, use --model offline (model="offline")'
            )

    def public(self) -> dict[str, Any]:
        """The settings as plain JSON data, secrets masked, users and passwords left out of addresses."""
        values: dict[str, Any] = with_texts(self.model_dump(mode="json"), partial(_USER.sub, ""))
        return values


def settings_file() -> Path | None:
    """``kbnav.toml`` of the working directory, else of the nearest folder above it that has one.

    Above it, one that belongs to another user does not count: it may send secrets to that user's servers.
    """
    here, own = Path.cwd(), {0, getattr(os, "getuid", int)()}
    found = (folder / SETTINGS_FILE for folder in (here, *here.parents))
    for file in found:
        with suppress(OSError):  # a folder that may not be looked into
            if file.is_file() and (file.parent == here or file.lstat().st_uid in own):
                return Path(os.path.relpath(file))
    return None


def _in_file(path: Path | None) -> dict[str, Any]:
    """What a settings file says, with the files that it names seen from here, not from its folder."""
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        own = found["sparql"] if isinstance(found.get("sparql"), dict) else ()
        return _from_here(found, path.parent, {*LIVE, *BUNDLED, *own})  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def _from_here(value: Any, folder: Path, names: Set[str], setting: str = "") -> Any:
    """A value of a settings file with its paths; ``names`` are those of knowledge bases that are no folders."""
    if isinstance(value, dict):
        return {key: _from_here(one, folder, names, f"{setting}.{key}".strip(".")) for key, one in value.items()}
    if isinstance(value, list):
        return [_from_here(one, folder, names, setting) for one in value]
    if isinstance(value, str) and _FILES.fullmatch(setting):
        return str(folder / value)
    if isinstance(value, str) and _KBS.fullmatch(setting):
        kbs = value.split(SEPARATOR)
        return SEPARATOR.join(str(folder / one) if one not in names and (folder / one).exists() else one for one in kbs)
    return value


def with_texts(value: Any, change: Callable[[str], str], *, names: bool = False) -> Any:
    """Plain data with every text among its values changed, and with ``names`` those of fields; numbers stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        pairs = ((change(str(name)) if names else name, one) for name, one in value.items())
        return {name: with_texts(one, change, names=names) for name, one in pairs}
    return [with_texts(one, change, names=names) for one in value] if isinstance(value, list | tuple) else value


def setting_names(model: type[BaseModel] | None = None, before: str = "") -> Iterator[str]:
    """The full names of all settings, as ``budget.steps``."""
    for name, field in (model or Settings).model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from setting_names(inner, f"{before}{name}.")
        else:
            yield before + name


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; ``overrides`` that are None are ignored. Raises UsageError naming a setting that is wrong."""
    return Settings(**{name: value for name, value in overrides.items() if value is not None})


_REACHED = ("kb", "base_url", "model_endpoints", "endpoints", "wikibase", "sparql", "with_tools", "notes")
"""Settings that name what is asked, run or sent to a model."""


def refuse_foreign(saved: Mapping[str, Any], own: Settings) -> None:
    """Raise UsageError where a saved run's settings alone, maybe anybody's, name an address, code or notes."""

    def named(values: Mapping[str, Any]) -> dict[str, Any]:
        groups = {name: values[name] for name in _REACHED if values.get(name)}
        pairs = ((name, one.items() if isinstance(one, Mapping) else [("", one)]) for name, one in groups.items())
        return {f"{name}.{key}".rstrip("."): one for name, items in pairs for key, one in items}

    known = [named(one.public()) for one in (own, Settings.model_construct())]
    for name, value in named(saved).items():
        if name == "kb" and ("://" not in str(value) or value in own.web.kbs):
            continue
        if all(one.get(name) != value for one in known):
            allowed = f"KBNAV_{name.upper().replace('.', '__')}, or {name} in {SETTINGS_FILE}"
            allowed += f", or give --kb {value}" if name == "kb" else ""
            shown = f"{name} {value}" if isinstance(value, str) else name
            raise UsageError(f"only the run's file names {shown}: to use that, set {allowed}")


def _wrong(item: Mapping[str, Any]) -> str:
    """What is wrong with one setting."""
    name = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"no setting {name!r}{did_you_mean(name, [*setting_names(), *Settings.model_fields])}"
    return f"{name}: {item['msg']}"


class Explained(NamedTuple):
    """A setting; ``value`` is plain JSON data, secrets masked, and ``source`` a variable, the file, or ``default``."""

    name: str
    value: Any
    source: str


def explained(settings: Settings) -> list[Explained]:
    """Every setting of ``settings``, as they were read without further arguments."""
    values, file = settings.public(), settings_file()
    in_file = _in_file(file)
    variables = {name.upper() for name in os.environ}
    found = []
    for name in setting_names():
        own = "KBNAV_" + name.replace(".", "__").upper()
        names = [own, own.partition("__")[0], *(["OPENAI_API_KEY"] if name == "api_key" else [])]
        used = [one for one in names if one in variables]
        source = used[0] if used else "default" if _get(in_file, name) is None else str(file)
        found.append(Explained(name, _get(values, name), source))
    return found


def _get(values: Any, name: str) -> Any:
    for part in name.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values
