"""PostgreSQL with pgvector: points that it searches for several gateways."""
