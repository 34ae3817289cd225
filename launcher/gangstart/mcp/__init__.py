"""The same answers for AI agents: a Model Context Protocol server over stdio."""
