"""All training pairs."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from second_opinion import sources
from second_opinion.edits import Writer
from second_opinion.frames import gather_frames
from second_opinion.lists import Lists
from second_opinion.other import changed
from second_opinion.pairs import Gathering, Pair
from second_opinion.same import reworded
from second_opinion.wordnet import WordNet


def gather(
    data: Path,
    wordnet: Path,
    vectors: Callable[[list[str]], npt.NDArray[np.float32]],
    count: int,
    seed: int,
) -> list[Pair]:
    """Return all pairs, shuffled; the same for the same arguments.

    Args:
        data: The folder of the open sets.
        wordnet: The folder of WordNet's database files.
        vectors: Embeds texts, to find near ones among the sets with intents.
        count: Scale: edits of English texts; half as many of Chinese ones and of frames.
        seed: Of all chance.
    """
    chance = random.Random(seed)
    words = WordNet(wordnet).relations
    english = Gathering(Writer(Lists.load("english"), chance, words))
    chinese = Gathering(Writer(Lists.load("chinese"), chance))
    texts = sources.carriers(data)
    sources.add_labelled(english, chinese, data)
    sources.add_mined(english, data, vectors)
    for gathering, carriers, edits in ((english, texts[0], count), (chinese, texts[1], count // 2)):
        gather_frames(gathering, count // 4)
        for _ in range(edits):
            add_edited(gathering, gathering.writer.pick(carriers))
    pairs = [*english.pairs, *chinese.pairs]
    chance.shuffle(pairs)
    return pairs


def add_edited(gathering: Gathering, text: str) -> None:
    """Add ``text`` with itself reworded, or with itself changed."""
    writer = gathering.writer
    if writer.odds(0.5):
        gathering.add(text, reworded(writer, text), "reworded", same=True)
        return
    result = changed(writer, text)
    if result is not None:
        kind, other = result
        one = reworded(writer, text, 1) if writer.odds(0.5) else text
        other = reworded(writer, other, 1) if writer.odds(0.3) else other
        gathering.add(one, other, f"changed.{kind}", same=False)
