"""Lets other splitters of documents work; run by `documents.py` where they are installed.

    python document_splitters.py

Standard input is JSON: pairs of texts, before and after an edit. Standard output is a line of JSON:
for each splitter, how many chunks are in the second text and not in the first, in order of the
pairs. Each is set to chunks of about 1,000 characters, and otherwise as its documentation shows.
"""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version

from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core.node_parser import SentenceSplitter

CHARACTERS = 1_000
OVERLAP = 200
TOKENS = 256
TOKENS_OVERLAP = 50

Split = Callable[[str], list[str]]


def splitters() -> dict[str, Split]:
    """Return them by name and version."""
    langchain = f"langchain-text-splitters {version('langchain-text-splitters')}"
    llama = f"llama-index-core {version('llama-index-core')}"
    overlapping = RecursiveCharacterTextSplitter(chunk_size=CHARACTERS, chunk_overlap=OVERLAP)
    plain = RecursiveCharacterTextSplitter(chunk_size=CHARACTERS, chunk_overlap=0)
    sentences = SentenceSplitter(chunk_size=TOKENS, chunk_overlap=TOKENS_OVERLAP)
    return {
        f"{langchain} Recursive {CHARACTERS}/{OVERLAP}": overlapping.split_text,
        f"{langchain} Recursive {CHARACTERS}/0": plain.split_text,
        f"{llama} SentenceSplitter {TOKENS}/{TOKENS_OVERLAP}": sentences.split_text,
    }


def main() -> None:
    """Answer."""
    pairs = json.load(sys.stdin)
    new = {
        name: [len({*split(after)} - {*split(before)}) for before, after in pairs]
        for name, split in splitters().items()
    }
    print(json.dumps(new))


if __name__ == "__main__":
    main()
