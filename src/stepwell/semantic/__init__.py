"""The semantic layer: embed, search, refuse look-alikes, accept."""
