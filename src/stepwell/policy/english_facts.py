"""What the classifier knows of facts that change, in English, as data.

Only what may change within the life of an answer: who holds an office or a record, counts,
prices, ranks, ages, what is "current". Facts that stay (capitals, authors, dates, heights,
definitions) match nothing here. Nor does what is past: the patterns ask for the present tense,
and a question that names a year has one answer for good.
"""

import re

from stepwell.policy.rule import Rule

_OPENING = (
    r"\W{0,3}(?:(?:please|can you tell me|could you tell me|tell me|do you know|and|so) ){0,2}"
    r"(?![^\n]{0,120}\b(?:if|each|altogether|i|me|my|you|your|we|our)\b)"
)
"""What is asked is nobody's own, and no sum."""

_DATELESS = r"(?![^\n]{0,120}\b(?:1\d|20)\d\d\b)"

_OFFICE = (
    r"(?:(?:vice |deputy )?(?:president|chancellor|mayor|governor)|premier of"
    r"|ceo|cto|cfo|coo|king|queen|emperor|sultan|pope|owner|ambassador|captain|leader|coach"
    r"|chair(?:man|woman|person)?|head (?:of|coach)|(?:managing|general) director"
    r"|secretary[ -](?:of|general)|(?:general|home|foreign|press) secretary"
    r"|(?:prime|chief|foreign|finance|defen[cs]e|health|interior) minister"
    r"|chief (?:executive|justice|of staff)|speaker of)\b"
)
_WORDS_BEFORE = (
    r"(?:(?!(?:first|second|third|last|next|only|former|previous|original|best|worst|greatest|"
    r"to|for|be|of|in|by|that|which|who|than|running|was|not)\b)[a-z][\w'’.-]{0,20} ){0,4}"
)
"""Neither a number, which names one holder for good, nor an opinion."""

_RECORD = (
    r"(?:(?:richest|wealthiest|poorest) (?!in\b|sources?|soils?|foods?)"
    r"|(?:highest|best)[- ]paid|top[- ](?:ranked|scorer)|(?:highest|top)[- ]grossing"
    r"|best[- ]selling|number one (?:in|player|team|song)"
    r"|most (?:followed|subscribed|populous|populated|streamed|viewed|visited|expensive)"
    r"|most valuable (?:company|companies|brands?|clubs?|players?|teams?|currency|currencies)"
    r"|(?:world|all-time) record|record holder|(?:holds|hold) the [^\n]{0,40}\brecord"
    r"|(?:world|reigning|defending|olympic|national) (?:[\w-]{1,20} ){0,3}champions?"
    r"|oldest (?:living )?(?:person|man|woman|people)|fastest (?:man|woman|(?:super)?computer)"
    r"|(?:most|largest|biggest|highest|smallest|lowest) (?:population|gdp|economy|net worth|"
    r"market cap)|has (?:won |scored )?the most (?:titles|goals|medals|wins|followers|subscribers"
    r"|users|grand slams|oscars|grammys|people|inhabitants|money|billionaires))\b"
)

_RECORD_WORDS = frozenset(
    "who who's name richest wealthiest poorest paid ranked scorer grossing selling number most "
    "record champion champions oldest fastest largest biggest highest smallest lowest".split()
)

_STATISTIC = (
    r"(?:populations?(?: density)?|gdp(?: per capita)?|minimum wage|unemployment(?: rate)?"
    r"|inflation(?: rate)?|(?:interest|birth|death|crime|poverty|literacy|tax|vat) rate"
    r"|national debt|market (?:cap|capitali[sz]ation|share|value)|net worth|(?:average|median) "
    r"(?:salary|income|wage|rent)|salary|revenue)"
)

_COUNT = (
    r"how many (?:"
    r"people (?:(?:live|work) (?!(?:in|at|on) an? )|(?:speak|use|read|play|own) |have died |"
    r"are (?:there )?(?:living )?(?:in|on) (?:the (?:world|planet|us|usa|uk|eu|united)\b|\w+\W*\Z))"
    r"|(?:inhabitants|residents|citizens|employees|subscribers|followers|users|customers) "
    r"(?:does|do|has|have|live|are|work)\b"
    r"|(?:member )?(?:states|countries|nations|members) (?:are|does|do|belong|has)\b[^\n]{0,30}"
    r"\b(?:eu|european union|nato|un|united nations|brics|wto|opec)\b)"
)

_PRICE = (
    r"(?:(?:how much|what) (?:does|do) (?!it cost\W*\Z)[^\n]{1,60} cost\b(?! mean)"
    r"|what(?:'s| is| are) the (?:[\w-]{1,20} ){0,3}?(?:prices?|fares?|rents?) (?:of|for|in) "
    r"(?!(?:success|freedom|fame|love|peace|progress)\b)"
    r"|what(?:'s| is) the (?:[\w-]{1,20} ){0,2}?cost of (?:living in|an?|the)\b)"
)

_RANK = (
    r"(?:what(?:'s| is| are) the (?:(?!order\b)[\w-]{1,20} ){0,2}?rankings? (?:of|in)\b"
    r"|(?:what|who|which|where)\b[^\n]{0,80}\b(?:(?:fifa|atp|wta|world|universit(?:y|ies)|global) "
    r"rankings?|rank(?:ed|s) (?:first|second|third|last|number|highest|\d))\b"
    r"|(?:what|who|which) (?:are|is) the (?:world's )?top (?:\d{1,3}|three|five|ten|twenty) "
    r"(?:[\w-]{1,20} ){0,2}?(?:universities|companies|countries|cities|banks|economies|players|"
    r"teams|billionaires|scorers)\b)"
)

_NUMBER_WORDS = frozenset(
    "population populations gdp wage unemployment inflation rate debt market worth salary income "
    "rent rents revenue age people inhabitants residents citizens employees subscribers followers "
    "users customers states countries nations members cost price prices fare fares ranking "
    "rankings ranked ranks top".split()
)

_NOT_A_PERSON = (
    r"(?:an?|the(?! (?:king|queen|pope|president|prime)\b)|he|she|it|they|his|her|its|their|this|"
    r"that|too|old|is|earth|mars|life|mankind|humanity|civili[sz]ation)\b"
)

CHANGING_FACTS = (
    Rule(
        "factual",
        "asks who holds an office or a record",
        re.compile(
            rf"{_OPENING}{_DATELESS}(?:"
            rf"who(?:'s|’s| is| are) (?:the )?{_WORDS_BEFORE}{_OFFICE}"
            rf"|what(?:'s|’s| is) the name of (?:the )?{_WORDS_BEFORE}{_OFFICE}"
            r"|who (?:owns|leads|heads|coaches|governs) (?!an? |the (?:rights?|copyright))"
            rf"|(?:who|what|which)(?![^\n]{{0,60}}\b(?:was|were|did|had)\b)[^\n]{{0,60}}?\b{_RECORD})"
        ),
        words=_RECORD_WORDS,
        max_characters=120,
    ),
    Rule(
        "factual",
        "asks for a count, a price or a rank that changes",
        re.compile(
            rf"{_OPENING}{_DATELESS}(?:{_COUNT}|{_PRICE}|{_RANK}"
            rf"|how (?:much|high|large|big) is (?:the )?{_STATISTIC} (?:of|in)\b"
            r"|what(?:'s|’s| is| are) (?!an? )(?:the )?(?:"
            rf"(?:(?!of\b)[\w-]{{1,20}} ){{0,2}}?{_STATISTIC} (?:of|in|for) (?!an? )"
            rf"|(?:[\w.-]{{1,20}} ){{0,3}}?[\w.-]{{1,20}}['’]s? (?:[\w-]{{1,20}} ){{0,2}}?"
            rf"(?:{_STATISTIC}|age)\b"
            rf"|(?:us|usa|uk|eu|world|global) {_STATISTIC}\b))"
        ),
        words=_NUMBER_WORDS,
        max_characters=120,
    ),
    Rule(
        "factual",
        "asks how old somebody is",
        # Somebody in a story stays as old as the story says.
        re.compile(
            rf"{_OPENING}{_DATELESS}how old(?:'s|’s| is) (?!{_NOT_A_PERSON})"
            r"(?:(?!(?:in|when|before|to)\b)[\w'’.-]{1,20} ?){1,5}\W*\Z"
        ),
        words=frozenset({"old"}),
        max_characters=80,
    ),
    Rule(
        "factual",
        "asks for what is current",
        re.compile(
            rf"{_OPENING}(?:as of\b(?=[^\n]{{0,60}}\b(?:who|what|which|how)\b)"
            r"|(?:who|what|which|how (?:many|much|high|big|large)|list|name|give)\b)"
            r"(?![^\n]{0,60}\b(?:was|were|did|had)\b)"
            # The electric kind, and the account.
            r"(?![^\n]{0,120}\b(?:accounts?|circuits?|electric(?:al)?|resist\w{1,6}|volt\w{0,4}|"
            r"amp\w{0,4}|ohms?|wires?|magnet\w{0,5})\b)"
        ),
        re.compile(
            r"\bas of (?:this|the|today|now|late|early|mid|spring|summer|fall|autumn|winter|"
            r"january|february|march|april|may|june|july|august|september|october|november|"
            r"december|20\d\d)\b"
            r"|(?:\bthe|['’]s) (?:current|incumbent|reigning|sitting) "
            r"(?!(?:in|through|of|flow\w{0,3}|density|directory|user|line|thread|process|row|node|branch)\b)\w"
        ),
        words=frozenset({"as", "current", "incumbent", "reigning", "sitting"}),
        max_characters=160,
    ),
)
