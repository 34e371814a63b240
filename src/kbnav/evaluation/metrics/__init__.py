"""Metrics of answer tables (``tables``) and of rankings (``ranking``), and how sure a score is (``statistics``)."""
