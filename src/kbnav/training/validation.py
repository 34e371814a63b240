"""Scores of an encoder on the validation questions, under the names that kbnav gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbnav.evaluation.metrics.ranking import STARK_METRICS
from kbnav.training.data import Example

_PLACES = 100
"""Of a ranking, that the mean reciprocal rank looks at."""
_NAMES = {"hit@1": "accuracy@1", "hit@5": "accuracy@5", "recall@20": "recall@20", "mrr": f"mrr@{_PLACES}"}


def validation(examples: Sequence[Example], pool: Mapping[int, str], batch: int) -> Any:
    """What a trainer asks for the scores: each question looks for its answers among the documents of the ``pool``."""
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    inner = InformationRetrievalEvaluator(
        {str(place): one.text for place, one in enumerate(examples)},
        {str(node): text for node, text in pool.items()},
        {str(place): {str(node) for node in one.answers if node in pool} for place, one in enumerate(examples)},
        mrr_at_k=[_PLACES],
        ndcg_at_k=[_PLACES],
        accuracy_at_k=[1, 5],
        precision_recall_at_k=[20],
        map_at_k=[_PLACES],
        batch_size=batch,
        write_csv=False,
    )

    class Validation(BaseEvaluator):  # type: ignore[misc]
        """The library's scores, by kbnav's names."""

        def __call__(self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1) -> Any:  # noqa: ARG002
            found = inner(model, None, epoch, steps)
            return {
                name: next(float(value) for key, value in found.items() if key.endswith(f"_{_NAMES[name]}"))
                for name in STARK_METRICS
            }

    return Validation()
