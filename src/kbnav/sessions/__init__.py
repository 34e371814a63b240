"""Questions and chats put to an agent, and what comes of a run: evidence, citation."""
