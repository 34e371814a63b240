"""Any SPARQL endpoint as a knowledge base."""
