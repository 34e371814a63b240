"""Title, licence and citation of each dataset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kbnav.evaluation.datasets.question import Source

_STARK = (
    "CC BY 4.0",
    "Wu et al. (2024). STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases. NeurIPS 2024.",
)

_OWN = Source("own questions", "not stated", "not stated")

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "spinach": Source(
            "SPINACH",
            "CC BY-SA 4.0",
            "Liu et al. (2024). SPINACH: SPARQL-Based Information Navigation for Challenging Real-World Questions. "
            "Findings of EMNLP 2024.",
        ),
        "qald-7": Source(
            "QALD-7, task 4",
            "MIT",
            "Usbeck et al. (2017). 7th Open Challenge on Question Answering over Linked Data (QALD-7). "
            "Semantic Web Challenges, ESWC 2017.",
        ),
        "qald-9-plus": Source(
            "QALD-9-plus",
            "CC BY 4.0",
            "Perevalov et al. (2022). QALD-9-plus: A Multilingual Dataset for Question Answering over DBpedia and "
            "Wikidata Translated by Native Speakers. ICSC 2022.",
        ),
        "qald-10": Source(
            "QALD-10",
            "MIT",
            "Usbeck et al. (2023). QALD-10: The 10th challenge on question answering over linked data. "
            "Semantic Web Journal.",
        ),
        "wikiwebquestions": Source(
            "WikiWebQuestions",
            "as given by its authors",
            "Xu et al. (2023). Fine-tuned LLMs Know More, Hallucinate Less with Few-Shot Sequence-to-Sequence Semantic "
            "Parsing over Wikidata. EMNLP 2023.",
        ),
        "lc-quad-2": Source(
            "LC-QuAD 2.0",
            "CC BY 4.0",
            "Dubey et al. (2019). LC-QuAD 2.0: A Large Dataset for Complex Question Answering over Wikidata and "
            "DBpedia. ISWC 2019.",
        ),
        "rubq-1": Source(
            "RuBQ 1.0",
            "CC BY-SA 4.0",
            "Korablinov and Braslavski (2020). RuBQ: A Russian Dataset for Question Answering over Wikidata. "
            "ISWC 2020.",
        ),
        "rubq-2": Source(
            "RuBQ 2.0",
            "CC BY-SA 4.0",
            "Rybin et al. (2021). RuBQ 2.0: An Innovated Russian Question Answering Dataset. ESWC 2021.",
        ),
        "tempqa-wd": Source(
            "TempQA-WD",
            "CC0 1.0",
            "Neelam et al. (2022). A Benchmark for Generalizable and Interpretable Temporal Question Answering over "
            "Knowledge Bases. arXiv:2201.05793.",
        ),
        "simplequestions-wd": Source(
            "SimpleQuestions over Wikidata",
            "CC BY 3.0",
            "Diefenbach et al. (2017). Question Answering Benchmarks for Wikidata. ISWC 2017 Posters & Demonstrations.",
        ),
        "complexwebquestions": Source(
            "ComplexWebQuestions 1.1, over Freebase",
            "as given by its authors",
            "Talmor and Berant (2018). The Web as a Knowledge-Base for Answering Complex Questions. NAACL 2018.",
        ),
        "grailqa": Source(
            "GrailQA 1.0, over Freebase",
            "CC BY-SA 4.0",
            "Gu et al. (2021). Beyond I.I.D.: Three Levels of Generalization for Question Answering on Knowledge "
            "Bases. WWW 2021.",
        ),
        "kqa-pro": Source(
            "KQA Pro 1.0, over a part of Wikidata of its own",
            "as given by its authors",
            "Cao et al. (2022). KQA Pro: A Dataset with Explicit Compositional Programs for Complex Question Answering "
            "over Knowledge Base. ACL 2022.",
        ),
        "mcwq": Source(
            "MCWQ, first published as CWQ",
            "CC BY 4.0",
            "Cui et al. (2022). Compositional Generalization in Multilingual Semantic Parsing over Wikidata. "
            "TACL 2022.",
        ),
        "stark-amazon": Source("STaRK-Amazon", *_STARK),
        "stark-mag": Source("STaRK-MAG", *_STARK),
        "stark-prime": Source("STaRK-Prime", *_STARK),
        "text2sparql": Source(
            "TEXT2SPARQL",
            "CC BY 4.0 (CK25)",
            "Tramp et al. (2025). First International TEXT2SPARQL Challenge, co-located with Text2KG at ESWC 2025. "
            "CK25: eccenca GmbH.",
        ),
        "jsonl": _OWN,
        "table": _OWN,
    }
)
