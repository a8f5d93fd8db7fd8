"""Tiny models and tokenizers for the torch engine: random weights, made in a moment.

Needs torch; import it only in tests of the torch engine.
"""

import random
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT_TOKENS = 2048
END = 2
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|end|>\n{% endfor %}<|start|>assistant{{ '\n' }}"
)


def write_tiny_model(folder: Path, *, seed: int = 0, template: str = TEMPLATE) -> Path:
    """Write a model of two layers, whose tokens are bytes and a few pairs; return its folder."""
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=0,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    torch.manual_seed(seed)
    LlamaForCausalLM(config).save_pretrained(folder)
    _tokenizer(template).save_pretrained(folder)
    return folder


def _tokenizer(template: str) -> PreTrainedTokenizerFast:
    special = ["<|pad|>", "<|start|>", "<|end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("e", "r"), ("o", "u"), ("Ġ", "a")]
    words = [*special, *letters, *("".join(pair) for pair in pairs)]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        bos_token="<|start|>",
        eos_token="<|end|>",
        chat_template=template,
    )


def random_ids(count: int, seed: int) -> list[int]:
    """Return tokens of no meaning, none of them special."""
    source = random.Random(seed)
    return [source.randrange(3, 260) for _ in range(count)]
