"""The words around statements that make an answer true, by language; what is stated is in whatever language it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EvidenceWords:
    """One language's phrases; what stands in braces is put in."""

    document: str
    chain: str
    generated: str
    ranks: Mapping[str, str]
    beside: str
    others: str
    reference: str
    no_reference: str
    answer: str
    more: str
    nothing: str
    absent: str
    cut: str
    untold: str
    failed: str


ENGLISH = EvidenceWords(
    document="{subject}, its document: “{text}”",
    chain="over one or more steps, whose references are not looked at",
    generated="a model's word alone",
    ranks={"preferred": "preferred rank", "deprecated": "deprecated rank"},
    beside="beside {values}, of the same rank",
    others="{values} and others",
    reference="reference: {links}",
    no_reference="no reference is stated",
    answer="the answer",
    more="and {count} more",
    nothing="nothing was found that is stated of it",
    absent="Looked for, and not there: {condition}",
    cut="There is more, which was not looked at.",
    untold="Not looked at: {part}.",
    failed="What makes it true could not be looked up: {why}",
)
WORDS: Mapping[str, EvidenceWords] = {
    "en": ENGLISH,
    "de": EvidenceWords(
        document="{subject}, im Dokument: „{text}“",
        chain="über einen oder mehrere Schritte, deren Belege nicht angesehen wurden",
        generated="nur das Wort eines Modells",
        ranks={"preferred": "bevorzugter Rang", "deprecated": "missbilligter Rang"},
        beside="neben {values}, von gleichem Rang",
        others="{values} und anderen",
        reference="Beleg: {links}",
        no_reference="kein Beleg angegeben",
        answer="die Antwort",
        more="und {count} weitere",
        nothing="dazu wurde keine Aussage gefunden",
        absent="Gesucht und nicht vorhanden: {condition}",
        cut="Es gibt mehr, was nicht angesehen wurde.",
        untold="Nicht angesehen: {part}.",
        failed="Was sie wahr macht, ließ sich nicht nachsehen: {why}",
    ),
    "fr": EvidenceWords(
        document="{subject}, dans son document : « {text} »",
        chain="en une ou plusieurs étapes, dont les références n'ont pas été examinées",
        generated="la seule parole d'un modèle",
        ranks={"preferred": "rang préféré", "deprecated": "rang déconseillé"},
        beside="à côté de {values}, de même rang",
        others="{values} et d'autres",
        reference="référence : {links}",
        no_reference="aucune référence indiquée",
        answer="la réponse",
        more="et {count} autres",
        nothing="aucune déclaration trouvée à ce sujet",
        absent="Cherché, et absent : {condition}",
        cut="Il y a davantage, qui n'a pas été examiné.",
        untold="Non examiné : {part}.",
        failed="Ce qui la rend vraie n'a pas pu être consulté : {why}",
    ),
    "es": EvidenceWords(
        document="{subject}, en su documento: «{text}»",
        chain="en uno o más pasos, cuyas referencias no se han mirado",
        generated="solo la palabra de un modelo",
        ranks={"preferred": "rango preferido", "deprecated": "rango obsoleto"},
        beside="junto a {values}, del mismo rango",
        others="{values} y otros",
        reference="referencia: {links}",
        no_reference="no se indica ninguna referencia",
        answer="la respuesta",
        more="y {count} más",
        nothing="no se encontró ninguna declaración sobre ello",
        absent="Buscado, y no está: {condition}",
        cut="Hay más, que no se ha mirado.",
        untold="No se ha mirado: {part}.",
        failed="No se pudo consultar lo que la hace verdadera: {why}",
    ),
}


def evidence_words(language: str) -> EvidenceWords:
    """The phrases of a language such as ``de`` or ``de-at``; English where there are none."""
    return WORDS.get(language.partition("-")[0].lower(), ENGLISH)
