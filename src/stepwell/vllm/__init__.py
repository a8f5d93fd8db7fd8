"""Stepwell inside vLLM: KV blocks that outlive a server and are shared by several of them.

`connector` is what vLLM loads; it and `pages` need vLLM, the other modules do not.
"""
