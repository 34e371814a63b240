"""Query expansion with a language model (KAR, sections 4 and 5.2): a query is asked together with what it may mean."""
