"""Questions and chats put to an agent, and the evidence for what comes of a run."""
