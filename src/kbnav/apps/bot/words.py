"""The bot's own words in a reply, by language; what is asked and answered is in whatever language it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """One language's phrases; what stands in braces is put in, already escaped. They hold no wikitext."""

    see_table: str
    best_so_far: str
    refused: str
    failed: str
    none_found: str
    query: str
    run_it: str
    rows: str
    more_steps: str
    how_found: str
    statements: str
    which: str
    if_meant: str
    name: str
    kind: str
    summary: str


ENGLISH = Words(
    see_table="See the table.",
    best_so_far="I ran out of steps; the best I found so far: {text}",
    refused="The language model behind me refused to answer this question.",
    failed="Something failed while I looked for an answer; please ask again later.",
    none_found="I could not find an answer to this question.",
    query="The query",
    run_it="run it",
    rows="{total} rows, the first {shown} shown",
    more_steps="and {count} more steps",
    how_found="How this was found, by {system} with {model}:",
    statements="The statements behind the rows:",
    which="Which “{name}” is meant?",
    if_meant="If {name} is meant: {text}",
    name="name",
    kind="type",
    summary="answer to a question (bot, see {task})",
)
WORDS: Mapping[str, Words] = {
    "en": ENGLISH,
    "de": Words(
        see_table="Siehe die Tabelle.",
        best_so_far="Mir sind die Schritte ausgegangen; das Beste, was ich bis dahin fand: {text}",
        refused="Das Sprachmodell, mit dem ich arbeite, hat die Antwort auf diese Frage verweigert.",
        failed="Bei der Suche nach einer Antwort ist etwas schiefgegangen; bitte später noch einmal fragen.",
        none_found="Ich habe keine Antwort auf diese Frage gefunden.",
        query="Die Abfrage",
        run_it="ausführen",
        rows="{total} Zeilen, davon die ersten {shown}",
        more_steps="und {count} weitere Schritte",
        how_found="So wurde es gefunden, von {system} mit {model}:",
        statements="Die Aussagen hinter den Zeilen:",
        which="Welches „{name}“ ist gemeint?",
        if_meant="Falls {name} gemeint ist: {text}",
        name="Name",
        kind="Art",
        summary="Antwort auf eine Frage (Bot, siehe {task})",
    ),
    "fr": Words(
        see_table="Voir le tableau.",
        best_so_far="Je suis à court d'étapes ; le meilleur résultat obtenu jusque-là : {text}",
        refused="Le modèle de langue que j'utilise a refusé de répondre à cette question.",
        failed="Une erreur s'est produite pendant la recherche d'une réponse ; merci de reposer la question plus tard.",
        none_found="Je n'ai pas trouvé de réponse à cette question.",
        query="La requête",
        run_it="exécuter",
        rows="{total} lignes, dont voici les {shown} premières",
        more_steps="et {count} autres étapes",
        how_found="Comment cela a été trouvé, par {system} avec {model} :",
        statements="Les déclarations derrière les lignes :",
        which="De quel « {name} » s'agit-il ?",
        if_meant="S'il s'agit de {name} : {text}",
        name="nom",
        kind="type",
        summary="réponse à une question (bot, voir {task})",
    ),
    "es": Words(
        see_table="Véase la tabla.",
        best_so_far="Se me acabaron los pasos; lo mejor que encontré hasta entonces: {text}",
        refused="El modelo de lenguaje que uso se negó a responder a esta pregunta.",
        failed="Algo falló mientras buscaba una respuesta; por favor, pregunta de nuevo más tarde.",
        none_found="No encontré respuesta a esta pregunta.",
        query="La consulta",
        run_it="ejecutarla",
        rows="{total} filas; se muestran las primeras {shown}",
        more_steps="y {count} pasos más",
        how_found="Cómo se encontró, por {system} con {model}:",
        statements="Las declaraciones tras las filas:",
        which="¿De qué «{name}» se trata?",
        if_meant="Si se trata de {name}: {text}",
        name="nombre",
        kind="tipo",
        summary="respuesta a una pregunta (bot, véase {task})",
    ),
}


def words_of(language: str) -> Words:
    """The words of a language such as ``de`` or ``de-at``; English where there are none."""
    return WORDS.get(language.partition("-")[0].lower(), ENGLISH)
