"""Looking through the files for what is kept of a request."""

from stepwell.core.kv import BlockId
from stepwell.stores.kv.files import BlockFiles
from stepwell.vllm.asked import Asked, Scopes
from stepwell.vllm.lookups import NOTHING, Found
from stepwell.vllm.plan import name_blocks, shard_digest


class Search:
    """Finds the blocks of which all workers' parts are kept. Blocking; one thread."""

    def __init__(
        self, files: BlockFiles, scopes: Scopes, *, block_tokens: int, shards: int
    ) -> None:
        """Look at nothing yet.

        Args:
            files: Where the parts are.
            scopes: Tells in which scope a request is.
            block_tokens: How many tokens a block stands for.
            shards: How many workers keep a part of each block.
        """
        self._files = files
        self._scopes = scopes
        self._block_tokens = block_tokens
        self._shards = shards

    def __call__(self, asked: Asked) -> Found:
        """Return what is kept. Looks at names only: 5 us a block; what is inside is checked later.

        Notes what it finds as used: vLLM may have the beginning in its own memory, from where it
        is used without being read from here.
        """
        digest = self._scopes.digest_of(asked)
        if digest is None:
            return NOTHING
        shards = [shard_digest(digest, shard, self._shards) for shard in range(self._shards)]
        found: list[BlockId] = []
        for block in name_blocks(digest, asked.token_ids, self._block_tokens):
            if not all(self._files.note_use(shard, block.id) for shard in shards):
                break
            found.append(block.id)
        return Found(digest, tuple(found))
