"""vLLM's pages as bytes. Needs torch."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import torch

_ORDER = "layers by number"
"""Part of the form, since a payload with another order of layers fits no page."""


class Pages:
    """The paged KV memory of one worker. One thread, between two steps of the engine.

    Layers that lie in one piece of memory at equal distances, as vLLM lays them out, are copied as
    one. That halves what a page of 30 layers costs.
    """

    def __init__(self, layers: Mapping[str, torch.Tensor], *, pages: int) -> None:
        """Look at the layers.

        Args:
            layers: By name, views of shape ``[B, H, N, C]`` whose first dimension counts pages, or
                equal parts of them, where the attention kernel wants smaller ones.
            pages: How many pages there are.
        """
        ordered = sorted(layers.items(), key=lambda named: _by_number(named[0]))
        # Layers may share their memory; a payload holds it once.
        distinct = {layer.data_ptr(): layer for _, layer in ordered}
        parted = [
            layer.unflatten(0, (pages, layer.shape[0] // pages))  # type: ignore[no-untyped-call]
            for layer in distinct.values()
        ]
        kinds = [f"{tuple(layer.shape[1:])} {layer.dtype}" for layer in parted]
        counted = [f"{len(list(same))} x {kind}" for kind, same in groupby(kinds)]
        self.form = "; ".join((*counted, _ORDER))
        """Tells payloads apart that do not fit into each other's pages."""
        self._stacks = list(_stacked(parted))
        self._sizes = [stack[:, 0].numel() * stack.element_size() for stack in self._stacks]
        self.block_bytes = sum(self._sizes)
        """Length of a payload."""

    def copy_of(self, page: int) -> memoryview:
        """Return a page's bytes, in the host's memory: layer by layer, each in order of its view.

        Waits for the device.
        """
        content = torch.empty(self.block_bytes, dtype=torch.uint8, device=self._stacks[0].device)
        for inside, outside in self._pairs(page, content):
            outside.copy_(inside)
        return memoryview(content.cpu().numpy().data)

    def fill(self, page: int, payload: memoryview) -> None:
        """Copy bytes of `copy_of` into a page. ``payload`` may be let go of afterwards."""
        # Not asynchronous: the payload is not pinned.
        content = torch.frombuffer(payload, dtype=torch.uint8).to(self._stacks[0].device)
        for inside, outside in self._pairs(page, content):
            inside.copy_(outside)

    def _pairs(
        self, page: int, content: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the parts of a page, and views of the same shape of where they are in a payload."""
        for stack, part in zip(self._stacks, torch.split(content, self._sizes), strict=True):
            inside = stack[:, page]
            yield inside, part.view(stack.dtype).view(inside.shape)


def _by_number(name: str) -> tuple[Sequence[str], Sequence[int]]:
    """Sort ``layers.2`` before ``layers.10``, which comes after it in memory."""
    return re.split(r"[0-9]+", name), [int(number) for number in re.findall(r"[0-9]+", name)]


def _stacked(layers: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield views with one more dimension in front, which counts layers at equal distances."""
    run: list[torch.Tensor] = []
    for layer in layers:
        if run and not _goes_on(run, layer):
            yield _as_one(run)
            run = []
        run.append(layer)
    if run:
        yield _as_one(run)


def _goes_on(run: Sequence[torch.Tensor], layer: torch.Tensor) -> bool:
    distance = _distance(run[-1], layer)
    return (
        _layout(run[-1]) == _layout(layer)
        and distance > 0
        and (len(run) == 1 or distance == _distance(run[0], run[1]))
    )


def _as_one(run: Sequence[torch.Tensor]) -> torch.Tensor:
    first = run[0]
    distance = _distance(first, run[1]) if len(run) > 1 else 0
    return first.as_strided(
        (len(run), *first.shape), (distance, *first.stride()), first.storage_offset()
    )


def _layout(layer: torch.Tensor) -> tuple[object, ...]:
    return layer.shape, layer.stride(), layer.dtype, layer.untyped_storage().data_ptr()


def _distance(layer: torch.Tensor, other: torch.Tensor) -> int:
    return int(other.storage_offset() - layer.storage_offset())
