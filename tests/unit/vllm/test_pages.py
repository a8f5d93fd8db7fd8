"""vLLM's pages as bytes. Where torch is installed."""

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

PAGES = 6


def test_a_page_comes_back_in_any_other() -> None:
    """Layers of several shapes and dtypes, in parts and shared: all of a page moves, no more."""
    from stepwell.vllm.pages import Pages  # noqa: PLC0415  (needs torch)

    strided = torch.randn(3, PAGES, 2, 4, 8).transpose(0, 1)[:, 1]
    layers = {
        "b": torch.randn(PAGES, 2, 4, 8, dtype=torch.bfloat16),
        "a": torch.randn(PAGES * 2, 1, 2, 16),
        "strided": strided,
    }
    layers["shares"] = layers["a"]
    pages = Pages(layers, pages=PAGES)
    assert pages.block_bytes == 2 * 4 * 8 * 2 + 2 * (1 * 2 * 16) * 4 + 2 * 4 * 8 * 4
    before = {name: layer.clone() for name, layer in layers.items()}
    payload = pages.copy_of(2)
    assert len(payload) == pages.block_bytes
    pages.fill(5, memoryview(bytearray(payload)))
    assert pages.copy_of(5) == payload
    for name, layer in layers.items():
        parts = layer.unflatten(0, (PAGES, -1))
        was = before[name].unflatten(0, (PAGES, -1))
        assert torch.equal(parts[5], was[2])
        assert torch.equal(parts[:5], was[:5])


def test_layers_in_one_piece() -> None:
    """However layers lie in memory, a page's payload is the same, and fills the same page."""
    from stepwell.vllm.pages import Pages  # noqa: PLC0415

    layers, shape = 12, (PAGES, 2, 4, 8)
    contents = torch.randn(layers, *shape)
    apart = list(contents.clone())
    in_one = contents.clone()
    backwards = contents.flip(0).clone()
    uneven = torch.zeros(2 * layers, *shape)
    places = [number + number // 3 for number in range(layers)]
    uneven[places] = contents
    ways = [
        apart,
        list(in_one),
        [backwards[layers - 1 - number] for number in range(layers)],
        [uneven[place] for place in places],
    ]
    wanted = contents[:, 3].numpy().tobytes()
    for way in ways:
        # Without zeros in front: layer 10 is not the one after layer 1.
        pages = Pages({f"layers.{n}.attn": layer for n, layer in enumerate(way)}, pages=PAGES)
        payload = pages.copy_of(3)
        assert bytes(payload) == wanted
        pages.fill(1, memoryview(bytearray(payload)))
        for layer, content in zip(way, contents, strict=True):
            assert torch.equal(layer[1], content[3])
            assert torch.equal(layer[2:], content[2:])
        # It is memory of its own.
        pages.fill(3, memoryview(bytearray(len(payload))))
        assert bytes(payload) == wanted


def test_one_layer() -> None:
    """A copy stays what it was when the page changes, also where a page is one piece."""
    from stepwell.vllm.pages import Pages  # noqa: PLC0415

    layer = torch.randn(PAGES, 2, 4, 8)
    copied = Pages({"layer": layer}, pages=PAGES).copy_of(2)
    before = bytes(copied)
    layer.zero_()
    assert bytes(copied) == before


def test_forms_tell_pages_apart() -> None:
    """Other shapes, dtypes or numbers of layers have another form; other names have not."""
    from stepwell.vllm.pages import Pages  # noqa: PLC0415

    def form(*shape: int, dtype: Any = torch.float32, layers: int = 2) -> str:
        made = {f"layer {n}": torch.zeros(PAGES, *shape, dtype=dtype) for n in range(layers)}
        return Pages(made, pages=PAGES).form

    forms = [
        form(2, 4, 8),
        form(4, 2, 8),
        form(2, 4, 8, layers=3),
        form(2, 4, 8, dtype=torch.bfloat16),
        form(2, 4, 8, dtype=torch.float16),
    ]
    assert len(set(forms)) == len(forms)
    assert len(form(2, 4, 8, layers=200)) < 100
