"""What kind of answer a text asks for."""

from stepwell.semantic.valve.answer import Asks
from stepwell.semantic.valve.asks_chinese import asked_in_chinese
from stepwell.semantic.valve.asks_english import asked_in_english
from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import Reading


def asks(reading: Reading) -> frozenset[Asks]:
    """Return the kinds of answer a text asks for; empty if it is not known."""
    mine = outline(reading)
    return frozenset(asked_in_chinese(mine.han) if mine.han else asked_in_english(mine.english))
