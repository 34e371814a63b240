"""Questions that people write, and what people think of questions (STaRK, sections 2.5 and 2.6, appendix D)."""
