"""Retrieval systems over an SKB: those of STaRK and KAR, and kbnav's own."""
