"""Model servers: any OpenAI-compatible one over HTTP, and the embedded one this package starts."""
