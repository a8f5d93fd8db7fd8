"""vLLM's pages as bytes. Needs torch."""

from collections.abc import Mapping
from itertools import groupby

import torch


class Pages:
    """The paged KV memory of one worker. One thread, between two steps of the engine."""

    def __init__(self, layers: Mapping[str, torch.Tensor], *, pages: int) -> None:
        """Look at the layers.

        Args:
            layers: By name, views of shape ``[B, H, N, C]`` whose first dimension counts pages, or
                equal parts of them, where the attention kernel wants smaller ones.
            pages: How many pages there are.
        """
        # Layers may share their memory; a payload holds it once.
        distinct = {layer.data_ptr(): layer for _, layer in sorted(layers.items())}
        self._layers = [
            layer.unflatten(0, (pages, layer.shape[0] // pages))  # type: ignore[no-untyped-call]
            for layer in distinct.values()
        ]
        kinds = [f"{tuple(layer.shape[1:])} {layer.dtype}" for layer in self._layers]
        self.form = "; ".join(f"{len(list(same))} x {kind}" for kind, same in groupby(kinds))
        """Tells payloads apart that do not fit into each other's pages."""
        self._sizes = [layer[0].numel() * layer.element_size() for layer in self._layers]
        self.block_bytes = sum(self._sizes)
        """Length of a payload."""

    def copy_of(self, page: int) -> memoryview:
        """Return a page's bytes, in the host's memory: layer by layer, each in order of its view.

        Waits for the device.
        """
        parts = [layer[page].contiguous().view(torch.uint8).flatten() for layer in self._layers]
        return memoryview(torch.cat(parts).cpu().numpy().data)

    def fill(self, page: int, payload: memoryview) -> None:
        """Copy bytes of `copy_of` into a page. ``payload`` may be let go of afterwards."""
        # Not asynchronous: the payload is not pinned.
        content = torch.frombuffer(payload, dtype=torch.uint8).to(self._layers[0].device)
        parts = torch.split(content, self._sizes)
        for layer, part in zip(self._layers, parts, strict=True):
            target = layer[page]
            target.copy_(part.view(layer.dtype).view(target.shape))


def _by_page(layer: torch.Tensor, pages: int) -> torch.Tensor:
    """Return a view with a dimension for pages, and one for the parts of each."""
    strides = layer.stride()
    parts = layer.shape[0] // pages
    return layer.as_strided(
        (pages, parts, *layer.shape[1:]),
        (parts * strides[0], *strides),
        layer.storage_offset(),
    )
