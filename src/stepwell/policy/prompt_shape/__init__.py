"""How a prompt is built, as far as a prefix cache cares: what breaks it, and what mends it."""
