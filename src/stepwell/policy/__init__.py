"""How long, whether, and under which rules an answer is kept. Pure: no I/O, no clock."""
