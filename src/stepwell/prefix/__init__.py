"""Layer: prefixes of tokens to what was computed of them before. A hint, never an answer."""
