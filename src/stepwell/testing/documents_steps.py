"""What may happen to a library of documents: steps, and rows of them to try."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

# Most of what happens, happens in one place: there documents share texts, and race.
_COLLECTIONS = st.sampled_from(["manual", "manual", "manual", "手册"])
_DOCUMENTS = st.sampled_from(["a.md", "b.md", "sub/Ä.md"])
KNOWN = ["one", "two", "four", "四\0"]
_TEXTS = st.sampled_from(KNOWN)
_RECIPES = st.sampled_from(["first", "first", "first", "second"])
_OUTRUN = st.sampled_from([False, False, False, True])


@dataclass(frozen=True)
class Open:
    """An edition is opened."""

    collection: str
    recipe: str


@dataclass(frozen=True)
class Put:
    """A document is put in place; ``outrun``: by who knows it as it was before."""

    collection: str
    recipe: str
    document: str
    texts: tuple[str, ...]
    outrun: bool


@dataclass(frozen=True)
class Annotate:
    """A document gets other metadata."""

    collection: str
    recipe: str
    document: str
    outrun: bool


@dataclass(frozen=True)
class Remove:
    """A document is taken out."""

    collection: str
    recipe: str
    document: str
    outrun: bool


@dataclass(frozen=True)
class Serve:
    """An edition is searched from now on."""

    collection: str
    recipe: str


@dataclass(frozen=True)
class Rename:
    """A collection is called otherwise."""

    collection: str
    name: str


@dataclass(frozen=True)
class Drop:
    """A collection is removed."""

    collection: str


Step = Open | Put | Annotate | Remove | Serve | Rename | Drop

_where = (_COLLECTIONS, _RECIPES)
STEPS = st.lists(
    st.builds(Open, *_where)
    | st.builds(Put, *_where, _DOCUMENTS, st.lists(_TEXTS, max_size=4).map(tuple), _OUTRUN)
    | st.builds(Annotate, *_where, _DOCUMENTS, _OUTRUN)
    | st.builds(Remove, *_where, _DOCUMENTS, _OUTRUN)
    | st.builds(Serve, *_where)
    | st.builds(Rename, _COLLECTIONS, _COLLECTIONS | st.just("other"))
    | st.builds(Drop, _COLLECTIONS),
    min_size=4,
    max_size=25,
)


_IN = ("manual", "first")
LIFE: Sequence[Step] = (
    Put(*_IN, "a.md", ("one", "two", "one"), outrun=False),
    Serve(*_IN),
    # Texts that are shared stay until the last document lets them go.
    Put(*_IN, "b.md", ("two",), outrun=False),
    Put(*_IN, "a.md", ("four",), outrun=False),
    Remove(*_IN, "b.md", outrun=True),
    Remove(*_IN, "b.md", outrun=False),
    Annotate(*_IN, "a.md", outrun=False),
    Annotate(*_IN, "a.md", outrun=True),
    Put(*_IN, "a.md", (), outrun=True),
    Put(*_IN, "a.md", (), outrun=False),
    Put(*_IN, "a.md", ("one",), outrun=False),
    # Another recipe, and back; another collection with the same text.
    Put("manual", "second", "a.md", ("one",), outrun=False),
    Put("手册", "first", "a.md", ("one",), outrun=False),
    Serve("手册", "first"),
    Serve("manual", "second"),
    Open(*_IN),
    Rename("manual", "手册"),
    Rename("manual", "other"),
    Drop("手册"),
    Drop("other"),
)
"""All that happens to documents, once; what is drawn may miss some of it."""
