"""Questions answered from documents, with every stage cached and timed."""
