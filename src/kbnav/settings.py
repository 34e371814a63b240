"""Every setting, in one typed model: from arguments, the environment (``KBNAV_…``), or ``kbnav.toml``, in that order.

A copy without secrets is saved with every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from kbnav.errors import UsageError
from kbnav.setting_groups import Bot as Bot
from kbnav.setting_groups import Budget as Budget
from kbnav.setting_groups import Checks as Checks
from kbnav.setting_groups import Endpoints as Endpoints
from kbnav.setting_groups import Limits as Limits
from kbnav.setting_groups import ModelEndpoint as ModelEndpoint
from kbnav.setting_groups import Price as Price
from kbnav.setting_groups import SparqlSource as SparqlSource
from kbnav.setting_groups import Web as Web
from kbnav.setting_groups import Wikibase as Wikibase
from kbnav.setting_groups import is_split as is_split
from kbnav.suggest import did_you_mean

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

SETTINGS_FILE = "kbnav.toml"
OFFLINE = "offline"
"""The model that is none: rules answer, as a baseline."""


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


class Settings(BaseSettings):
    """All settings of kbnav."""

    model_config = SettingsConfigDict(
        env_prefix="KBNAV_",
        env_nested_delimiter="__",
        toml_file=SETTINGS_FILE,
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
    ask_back: Literal["never", "both", "ask"] = "never"
    """What chat, page and bot do where a name in a question has several meanings, whose answers differ: nothing but to
    name them, show the other answers too, or ask which is meant. Benchmarks never do."""
    endpoints: Endpoints = Endpoints()
    sparql: dict[str, SparqlSource] = {}
    """SPARQL endpoints by the names under which ``kb`` knows them."""
    wikibase: Wikibase = Wikibase()
    limits: Limits = Limits()
    budget: Budget = Budget()
    checks: Checks = Checks()
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
    escalate: str = ""
    """A stronger model that is asked where the answer of ``model`` fails the checks; empty: none."""
    base_url: str = ""
    """OpenAI-compatible endpoint; empty: OpenAI's."""
    api_key: SecretStr = Field(
        default=SecretStr(""), validation_alias=AliasChoices("api_key", "KBNAV_API_KEY", "OPENAI_API_KEY")
    )
    temperature: Sampling = 1.0
    """Of the policy (SPINACH, appendix D)."""
    top_p: Sampling = 0.9
    model_temperature: Sampling = 0.0
    """Of every call but the policy's and those that sample; ``none``: those that sample send none either."""
    model_timeout: float = 120.0
    model_retries: int = 4
    model_window: int = Field(default=128_000, ge=256)
    """Tokens that the model reads and writes at once; what a retrieval system sends beyond it is cut, and said."""
    model_jobs: int = Field(default=8, ge=1)
    """Calls of the model that are under way at once, outside the policy."""
    model_cache: bool = True
    """Whether replies to retrieval systems are kept under ``home`` and given again to the same prompts."""
    options: dict[str, Any] = {}
    """Options of the system that answers, by name, as ``--set`` gives them."""
    model_endpoints: dict[str, ModelEndpoint] = {}
    """Endpoints of models beside ``base_url``, for commands that ask several models: ``NAME@ENDPOINT``."""
    prices: dict[str, Price] = {}
    pruning: Literal["ranking", "model", "none"] = "ranking"
    """How entries are cut to what matters: ranked against the question, by a model (SPINACH, section 4.1), or not."""
    notes: tuple[Path, ...] = ()
    """Files of notes and solved examples of the knowledge base (``kbnav explore``, ``kbnav learn``)."""
    without_tools: tuple[str, ...] = ()
    """Tools that are not offered."""
    with_tools: tuple[str, ...] = ()
    """Tools of other packages, by name, or of one's own, as ``module:function``, that are offered besides."""

    access_token: SecretStr = SecretStr("")
    """OAuth 2 token, owner-only, of an account of the wiki of ``endpoints.api``, which raises its limit."""

    home: Path = Field(default_factory=lambda: Path.home() / ".local" / "state" / "kbnav")
    """Folder of saved runs, chat sessions and the HTTP cache."""
    data: Path = Path("benchmarks")
    """Folder of the benchmarks' files, as they are published."""
    skb_graph: str = ""
    """Where walks in an SKB's graph are asked: a SPARQL endpoint that has its triples, by its URL or a name of
    ``sparql``; empty: of the SKB itself."""
    verify: bool = False
    """Whether an SKB's files are compared with their checksums when it is opened, which reads all of them."""
    cache_age: float = 7 * 24 * 3600.0
    """Seconds for which a cached answer is used; 0 turns the cache off."""
    reply_age: float = Field(default=0.0, ge=0)
    """Seconds for which a kept reply of a model is given again; 0: for ever."""
    shared: SecretStr = SecretStr("")
    """URL of a PostgreSQL database in which machines keep HTTP answers, replies and limits; empty: under ``home``."""
    journal: SecretStr = SecretStr("")
    """URL of a PostgreSQL database that keeps the runs of evaluations besides their folders."""

    _chat: Any = PrivateAttr(default=None)

    @property
    def chat(self) -> BaseChatModel | None:
        """A chat model made elsewhere, which is asked in place of the one that ``model`` names."""
        chat: BaseChatModel | None = self._chat
        return chat

    def asking(self, model: str | BaseChatModel) -> Settings:
        """The same settings with another model: its name, or a LangChain chat model, whose name is then found out."""
        if isinstance(model, str):
            name, chat = model, None
        else:
            name, chat = _name_of(model), model
        changed = self.model_copy(update={"model": name})
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
        """Arguments first, then the environment, then ``kbnav.toml`` of the working directory."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    def kept(self, name: str) -> Path | str:
        """Where what machines may share is kept: the file of this name under ``home``, or the URL of a database."""
        return self.shared.get_secret_value() or self.home / name

    def public(self) -> dict[str, Any]:
        """The settings as plain JSON data, secrets masked, users and passwords left out of addresses."""
        return _without_users(self.model_dump(mode="json"))  # type: ignore[no-any-return]


def _without_users(value: Any) -> Any:
    if isinstance(value, str):
        return _USER.sub("", value)
    if isinstance(value, dict):
        return {name: _without_users(one) for name, one in value.items()}
    return [_without_users(one) for one in value] if isinstance(value, list) else value


def _name_of(chat: BaseChatModel) -> str:
    """Chat models have no common name for their name."""
    names = (getattr(chat, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str) and name), chat._llm_type)


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
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise UsageError("settings: " + "; ".join(map(_wrong, error.errors()))) from error
    except ValueError as error:  # unreadable TOML
        raise UsageError(f"{SETTINGS_FILE}: {error}") from error


def _wrong(item: Mapping[str, Any]) -> str:
    """What is wrong with one setting."""
    name = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"no setting {name!r}{did_you_mean(name, [*setting_names(), *Settings.model_fields])}"
    return f"{name}: {item['msg']}"
