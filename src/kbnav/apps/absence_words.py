"""Which kind of nothing an answer is, in words, by language."""

from __future__ import annotations

from collections.abc import Mapping

from kbnav.answers.tables import Absence, AbsenceKind

ENGLISH: Mapping[AbsenceKind, str] = {
    "not stated": "Nothing such is stated here.",
    "asks wrongly": "The query does not ask for what is here.",
    "service failed": "A service failed, so it cannot be said that there is none.",
    "split graph": "It may be in the graph of scholarly articles, which is apart.",
    "partial copy": "This copy is a part only, and may lack it.",
}
WORDS: Mapping[str, Mapping[AbsenceKind, str]] = {
    "en": ENGLISH,
    "de": {
        "not stated": "So etwas ist hier nicht angegeben.",
        "asks wrongly": "Die Abfrage fragt nicht nach dem, was hier ist.",
        "service failed": "Ein Dienst ist ausgefallen; es lässt sich nicht sagen, dass es nichts gibt.",
        "split graph": "Es kann im Graphen der wissenschaftlichen Artikel sein, der für sich steht.",
        "partial copy": "Diese Kopie ist nur ein Teil; es kann ihr fehlen.",
    },
    "fr": {
        "not stated": "Rien de tel n'est indiqué ici.",
        "asks wrongly": "La requête ne demande pas ce qui se trouve ici.",
        "service failed": "Un service a échoué ; on ne peut donc pas dire qu'il n'y a rien.",
        "split graph": "Cela peut être dans le graphe des articles scientifiques, qui est à part.",
        "partial copy": "Cette copie n'est que partielle, et cela peut y manquer.",
    },
    "es": {
        "not stated": "Aquí no consta nada así.",
        "asks wrongly": "La consulta no pide lo que hay aquí.",
        "service failed": "Falló un servicio; no se puede decir que no haya nada.",
        "split graph": "Puede estar en el grafo de los artículos científicos, que está aparte.",
        "partial copy": "Esta copia es solo una parte, y puede faltarle.",
    },
}


def absence_text(absence: Absence, language: str = "en") -> str:
    """The kind in a sentence, why that is, and what has matches in place of the part that has none."""
    kinds = WORDS.get(language.partition("-")[0].lower(), ENGLISH)
    instead = f"({absence.instead})" if absence.instead and absence.instead not in absence.text else ""
    return " ".join(filter(None, (kinds[absence.kind], absence.text, instead)))
