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
