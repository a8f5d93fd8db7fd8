"""The engine's pure parts: text in pieces, int8 blocks, blocks as bytes, requests."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.engines.torch.answer_text import AnswerText
from stepwell.engines.torch.int8 import int8_token_bytes, pack_int8, unpack_int8
from stepwell.engines.torch.kv_shape import KvShape
from stepwell.engines.torch.loading import Loaded
from stepwell.engines.torch.prompts import SpokenTokens, ids_of, tokens_of
from stepwell.engines.torch.raw_block import block_bytes, block_of

FEW = settings(max_examples=60, deadline=None)


@FEW
@given(text=st.text(max_size=60), stops=st.lists(st.text("abc é", min_size=1, max_size=4)))
def test_pieces_join_to_the_text_before_the_first_stop(
    loaded: Loaded, text: str, stops: list[str]
) -> None:
    """However tokens fall, nothing of a stop text is shown, and nothing before it is lost."""
    tokenizer = loaded.tokenizer.backend_tokenizer
    answer = AnswerText(tokenizer, stops)
    shown = "".join(
        answer.push(token) for token in tokenizer.encode(text, add_special_tokens=False).ids
    )
    ends = [text.index(stop) for stop in stops if stop in text]
    assert answer.is_stopped == bool(ends)
    assert shown + answer.rest() == (text[: min(ends)] if ends else text)


@FEW
@given(scale=st.floats(1e-6, 1e4), seed=st.integers(0, 1000), row=st.integers(0, 15))
def test_int8_is_within_a_step_of_each_value(scale: float, seed: int, row: int) -> None:
    """Rows of very different size, and of noughts, do not disturb each other."""
    values = torch.randn((2, 2, 3, 16, 8), generator=torch.Generator().manual_seed(seed)) * scale
    values[:, :, :, row] = 0
    packed = pack_int8(values)
    step = values.abs().amax(-1, keepdim=True) / 127
    error = (unpack_int8(packed, torch.float32) - values).abs()
    assert bool((error <= step * 0.51 + 1e-9).all())
    assert packed.nbytes == 16 * int8_token_bytes(2, 3, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_come_back_as_they_were_written(dtype: torch.dtype) -> None:
    """To the bit; bytes of another size are none."""
    shape = KvShape(3, 2, 8, dtype)
    block = torch.randn(shape.of(16)).to(dtype)
    content = bytearray(block_bytes(block))
    back = block_of(memoryview(content), shape, 16)
    assert back is not None
    assert torch.equal(back, block)
    assert block_of(memoryview(content)[:-1], shape, 16) is None
    assert block_of(memoryview(content), shape, 32) is None


@given(ids=st.lists(st.integers(0, 1 << 30)))
def test_ids_survive_being_bytes(ids: list[int]) -> None:
    assert list(ids_of(tokens_of(ids))) == ids


def test_spoken_tokens_stay_within_their_bound() -> None:
    """The longest ago used leave first."""
    spoken = SpokenTokens(max_bytes=40)
    for number in range(4):
        spoken.note(f"text {number}", tokens_of([number] * 4), None)
        spoken.longest("text 0", [6], None)
    assert spoken.longest("text 0", [6], None) == (6, tokens_of([0] * 4))
    assert spoken.longest("text 1", [6], None) == (0, b"")
    assert spoken.longest("text 3", [6], None)[0] == 6
