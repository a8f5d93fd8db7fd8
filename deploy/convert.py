"""Converts the embedder's weights into the cache that the gateway looks in."""

from stepwell.assembly.environment import cache_dir
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5

open_encoder(E5, cache_dir() / "models")
