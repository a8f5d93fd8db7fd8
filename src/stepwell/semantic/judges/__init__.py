"""Whether two answers say the same: by comparing them, by their meaning, or by asking a model."""
