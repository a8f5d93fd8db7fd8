"""English words folded: contractions taken apart, spelling and inflection made one."""

import re

_IRREGULAR = """
am be|is be|are be|was be|were be|been be|being be|has have|had have|having have|does do|did do
|done do|doing do|went go|gone go|goes go|bought buy|brought bring|built build|caught catch
|chose choose|chosen choose|came come|drove drive|driven drive|drank drink|drunk drink|ate eat
|eaten eat|fell fall|fallen fall|felt feel|fought fight|found find|flew fly|flown fly|forgot forget
|forgotten forget|forgave forgive|forgiven forgive|froze freeze|frozen freeze|got get|gotten get
|gave give|given give|grew grow|grown grow|held hold|hid hide|hidden hide|kept keep|knew know
|known know|led lead|lent lend|lost lose|made make|meant mean|met meet|paid pay
|ran run|said say|saw see|seen see|sold sell|sent send|shown show|shook shake|shaken shake
|shot shoot|shrank shrink|shrunk shrink|sang sing|sung sing|sank sink|sunk sink|sat sit|slept sleep
|spoke speak|spoken speak|spent spend|stood stand|stole steal|stolen steal|struck strike|swam swim
|swum swim|took take|taken take|taught teach|told tell|thought think|threw throw|thrown throw
|understood understand|woke wake|woken wake|wore wear|worn wear|won win|wrote write|written write
|broke break|broken break|began begin|begun begin|bit bite|bitten bite|bled bleed|blew blow
|blown blow|dealt deal|drew draw|drawn draw|fed feed|heard hear|lain lie|lying lie|rode ride
|ridden ride|rose rise|risen rise|sought seek|swore swear|sworn swear|tore tear|torn tear
|dying die|died die|tying tie|using use|used use|fled flee|hung hang|lit light|withdrew withdraw
|withdrawn withdraw|became become|rewrote rewrite|rewritten rewrite|overcame overcome
|children child|men man|women woman|people person|mice mouse|feet foot|teeth tooth|geese goose
|bacteria bacterium|criteria criterion|phenomena phenomenon|indices index|analyses analysis
|lives life|wives wife|knives knife|leaves leave|halves half|shelves shelf
|grey gray|cheque check|tyre tire
|licence license|defence defense|offence offense|programme program
|catalogue catalog|dialogue dialog|aeroplane airplane|cancelled cancel|cancelling cancel
|travelling travel|travelled travel|modelling model|labelled label|enrol enroll|fulfil fulfill
|learnt learn|burnt burn|spelt spell|dreamt dream
|something something|anything anything|nothing nothing|everything everything|during during
|news news|always always|lens lens|series series|species species|its its|this this
|as as|us us|yes yes|his his|hers hers|perhaps perhaps|plus plus|minus minus|bus bus|gas gas
|evening evening|bed bed|red red|need need|feed feed|speed speed|seed seed|indeed indeed
|hundred hundred|ring ring|king king|morning morning|wedding wedding|building build
"""

_NOT = {"dont": "do", "doesnt": "does", "didnt": "did", "cant": "can", "wont": "will"}
_NOT |= {"isnt": "is", "arent": "are", "wasnt": "was", "werent": "were", "havent": "have"}
_NOT |= {"hasnt": "has", "hadnt": "had", "shouldnt": "should", "wouldnt": "would"}
_NOT |= {"couldnt": "could", "cannot": "can", "aint": "is"}
_NOT |= {"can't": "can", "won't": "will", "shan't": "shall", "ain't": "is"}

_JOINED = {form: (verb, "not") for form, verb in _NOT.items()} | {
    "what's": ("what", "is"),
    "whats": ("what", "is"),
    "who's": ("who", "is"),
    "whos": ("who", "is"),
    "how's": ("how", "is"),
    "hows": ("how", "is"),
    "where's": ("where", "is"),
    "when's": ("when", "is"),
    "why's": ("why", "is"),
    "that's": ("that", "is"),
    "there's": ("there", "is"),
    "it's": ("it", "is"),
    "he's": ("he", "is"),
    "she's": ("she", "is"),
    "here's": ("here", "is"),
    "let's": ("let", "us"),
    "im": ("i", "am"),
    "ive": ("i", "have"),
    "gonna": ("going", "to"),
    "wanna": ("want", "to"),
    "don'ts": ("donts",),
    "e-mail": ("email",),
    "per-cent": ("percent",),
    "whatsapp": ("whatsapp",),
}
_ENDINGS = {"n't": "not", "'re": "are", "'ll": "will", "'ve": "have", "'m": "am", "'d": "would"}


def pieces(word: str) -> tuple[str, ...]:
    """Take a case-folded word apart: ``don't`` is do, not; ``self-employed`` self, employed."""
    if word.isalpha():
        return _JOINED.get(word) or (word,)
    word = word.replace("’", "'")
    known = _JOINED.get(word)
    if known:
        return known
    parts: list[str] = []
    for part in word.split("-"):
        stem, mark, ending = part.rpartition("'")
        if mark and stem.endswith("n") and ending == "t":
            parts += (stem[:-1], "not")
        elif mark and "'" + ending in _ENDINGS:
            parts += (stem, _ENDINGS["'" + ending])
        elif mark and ending in {"s", ""}:
            parts += (stem, "'s")
        else:
            parts.append(part)
    return tuple(parts)


_PLURALS = tuple(
    (re.compile(pattern), kept)
    for pattern, kept in (
        (r"^(.{2,})(?:ies|ied)$", r"\1y"),
        (r"^(.+(?:ss|x|ch|sh|zz))es$", r"\1"),
        (r"^(..+[^sui])s$", r"\1"),
    )
)
"""The first that fits is used."""
_ENDINGS_OF_VERBS = re.compile(r"^(?=[^aeiouy]*[aeiouy].*(?:ing|ed)$)(.{3,})(?:ing|ed)$")
_SPELLINGS = tuple(
    (re.compile(pattern), kept)
    for pattern, kept in (
        (r"^(arm|behavi|col|fav|flav|harb|hon|hum|lab|neighb|od|rum|tum)our", r"\1or"),
        (r"(cent|fib|lit|met|theat)re$", r"\1er"),
        (r"(?<=..)([iy])se$", r"\1ze"),
        (r"(?<=...)([iy])s$", r"\1z"),  # what -ising and -ised leave
        (r"(?<=...)e$", ""),
        (r"(?<=..)(.)\1$", r"\1"),
        (r"(?<=...)y$", "i"),
    )
)
"""Each is used that fits."""


def _folded(word: str) -> str:
    """Take inflection off. What is left need not be a word; it is the same for all forms."""
    for pattern, kept in _PLURALS:
        word, fits = pattern.subn(kept, word)
        if fits:
            break
    word = _ENDINGS_OF_VERBS.sub(r"\1", word)
    for pattern, kept in _SPELLINGS:
        word = pattern.sub(kept, word)
    return word


_FORMS = {
    form: base if form == base else _folded(base)
    for form, base in (pair.split() for pair in _IRREGULAR.split("|"))
}


def fold(word: str) -> str:
    """Return what all forms of a piece share: ``makes``, ``making``, ``made``; ``colour``."""
    return _FORMS.get(word) or _folded(word)


_WORDS_WITHOUT_CONTENT = """
a an the this that these those some any i me my mine you your yours he him his she her hers it its
we us our ours they them their theirs one ones who whom whose which what when where why how is am
are was were be been being do does did doing done have has had having can could will would shall
should may might must need to of in on at by for with from into onto about as than then and or but
if so because while not no nor 's there here also too very really just actually please thanks
thank hi hello hey ok okay well tell know want like would let give show get got use using used
kindly anyone someone something anything somebody anybody way ways best good there's such it's
much many more most each all every both few other another own same up out off over again once only
new possible possibly exactly currently ever still even now
"""
STOP = frozenset(_WORDS_WITHOUT_CONTENT.split())
"""Pieces that carry no content of their own. Some of them are what a check looks for."""
