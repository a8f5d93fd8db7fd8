"""What the classifier knows of English, as data.

Written on one half of the labelled sets that ``benchmarks/classifier.py`` reads, measured on the
other.
"""

import re

from stepwell.policy.english_facts import CHANGING_FACTS
from stepwell.policy.rule import Rule


def _any(*alternatives: str) -> str:
    return "(?:" + "|".join(alternatives) + ")"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASK = (
    r"\W{0,3}(?:(?:please|pls|kindly|hey|hi|hello|now|next|can you|could you|would you|"
    r"will you|help me(?: to)?|i want you to|i need you to|i'd like you to),? +){0,4}"
)
"""How a request may open before it comes to its verb."""

_PAYLOAD = r"(?:[:\n\"“‘«「『]|(?<!\w)')\s{0,8}[^\s:]"
"""The text to work on begins here. Without one, "translate this" leans on earlier turns."""

_LANGUAGE = _any(
    *"english chinese mandarin cantonese french german spanish italian portuguese russian "
    "japanese korean arabic hindi dutch swedish norwegian danish finnish polish turkish "
    "vietnamese thai greek latin hebrew ukrainian czech hungarian romanian indonesian "
    "malay bengali urdu persian".split(),
    r"(?:simplified|traditional) chinese",
)

_CODE_WORDS = (
    "python javascript typescript kotlin golang haskell powershell matlab sql php css vba "
    "numpy pandas pytorch tensorflow django laravel autolisp opengl glsl fortran cobol java "
    "regex function functions code rust script program sqlite api"
)

_LANGUAGES_OF_CODE = _any(
    *"python javascript typescript kotlin golang haskell powershell matlab php vba sql "
    "pytorch numpy pandas laravel autolisp glsl fortran cobol java html css xaml".split(),
    r"c\+\+",
    r"c#",
    r"(?:in|with|using) (?:c|go|r|rust|ruby|swift|perl|scala|bash|lua|julia|react|dart)",
    r"(?:c|go|r|rust|ruby|swift|perl|scala|bash|shell|lua|julia|react|dart|metal) ?"
    r"(?:code|program|function|script|snippet|class|component|implementation)",
)

_FORMAT = (
    r"(?:an? |the )?(?:valid |pretty |clean |well-formed |simple |markdown |html |numbered |"
    r"bulleted |json )?"
    r"(?:json|csv|tsv|yaml|xml|html|markdown|latex|toml|bullet points|bullets|list|table|array|"
    r"title case|upper case|lower case|uppercase|lowercase)\b"
)

_NOT_WRITING = (
    r"(?!\W{0,3}(?:please |can you |could you |help me )?"
    r"(?:write|compose|explain|describe|define|summari[sz]e|draft|rewrite|imagine|pretend|"
    r"generate|compare|create|suppose|design|brainstorm|why|act as|you are|given|if)\b)"
)
"""Nothing is to be made up."""

_ABOUT_THE_WORLD = (
    _NOT_WRITING + r"(?!how (?:do|does|did|to|can)\b)"
    r"(?![^\n]{0,120}\b(?:difference between|meaning of|definition of|history of|poem|essay|"
    r"story|lyrics)\b)"
)
"""A question about the world as it is: nothing is to be made up or explained."""

_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"

_TIME = _any(
    r"today(?:'s)?",
    "tonight",
    "right now",
    "currently",
    "at the moment",
    "at present",
    "as of now",
    "yesterday(?:'s)?",
    "tomorrow(?:'s)?",
    "latest",
    "most recent",
    "recently",
    r"this past \w{1,9}",
    r"(?:this|last|next) (?:morning|afternoon|evening|night|week|weekend|month|season|year|fall|"
    r"spring|summer|winter|" + _DAYS + ")(?:'s)?",
    r"on " + _DAYS,
)

_TIME_WORDS = (
    "today today's tonight now currently moment present yesterday yesterday's tomorrow "
    "tomorrow's latest recent recently past this last next monday tuesday wednesday thursday "
    "friday saturday sunday"
)

_TOPIC = _any(
    r"(?:weather|forecast)s?(?! (?:balloon|satellite|station|system|pattern|proof))",
    r"(?:is|will) it (?:be )?(?:rain|snow|hail|sunn|cloud|wind|hot|cold|warm)",
    r"(?<!web )(?<!website )(?<!site )(?<!network )(?<!organic )(?<!drug )traffic"
    r"(?! (?:light|sign|ticket|law|cop|cone|flow|model|source|to (?:my|our|the|a) (?:web)?site))",
    r"exchange rates?",
    r"(?:stock|share|bitcoin|gold|oil|gas|silver|ethereum|crypto) (?:price|value|quote|rate)s?",
    r"how(?:'s| is| are| did) (?:the )?(?:[\w']{1,20} ){0,3}(?:stocks?|shares?)\b",
    r"(?:price|value|cost) of (?:[\w']{1,20} ){0,3}(?:stocks?|shares?|bitcoin|gold|oil|"
    r"silver|ethereum|crude)",
    r"(?:stocks?|shares?) (?:doing|trading|worth|gone|closed?|at|up|down|market)",
    r"(?:headlines|breaking news)",
    r"(?<!fake )(?<!good )(?<!bad )(?<!great )news\b(?! (?:articles?|stor(?:y|ies)|"
    r"anchors?|reports?|releases?|letters?|items?|agenc(?:y|ies)|media|paper))",
    r"what time is it",
    r"what(?:'s| is) the time\b(?! (?:difference|zone|complexity|signature|limit|value|frame))",
    r"what(?:'s| is) (?:the date|today's date)",
    r"what day is (?:it|today)",
    r"(?:current|present) (?:time|date|price|weather|temperature|traffic|score|status|"
    r"events?|rate|version|situation|conditions?|value|standings)",
    r"temperature (?:outside|right now)",
    r"air quality",
    r"flight (?:status|on time|delayed)",
    r"(?:football|soccer|basketball|baseball|cricket|nba|nfl|nhl|hockey|tennis) scores?",
    r"(?:where(?:'s| is| are)|status of|track(?:ing)?(?: on| for| of)?) (?:my|our) "
    r"(?:\w{1,20} ){0,3}(?:orders?|packages?|parcels?|delivery|shipment|flight|refund)",
    r"my (?:\w{1,20} ){0,2}balance",
    r"my (?:flight|train) (?:delayed|on time)",
)

_TOPIC_WORDS = (
    "weather forecast forecasts rain raining snow snowing hail sunny cloudy windy hot cold warm "
    "traffic exchange price prices value quote quotes cost stock stocks share shares headlines "
    "news time date day current present temperature air flight score scores order orders "
    "package packages parcel parcels delivery shipment refund balance train"
)

_QUESTION = (
    r"\W{0,3}(?:please |can you |could you |hey |so )?"
    r"(?:what|who|whose|whom|which|when|where|how (?:much|many|is|are|was|were|has|have|did)|is|"
    r"are|did|does|has|have|was|were|will|any|show|tell|give|find|list|check|get|look up)\b"
)

ENGLISH_RULES = (
    Rule(
        "translation",
        "asks to translate the text it brings",
        re.compile(
            rf"{_ASK}(?:translate\b"
            rf"(?![^\n:]{{0,80}}\b(?:code|program|script|function|pseudocode|{_LANGUAGES_OF_CODE})\b)"
            rf"(?:[^\n:\"“]{{0,80}}?{_PAYLOAD}"
            r"|\s(?!(?:this|that|it|these|those|them|the|my|your|all|everything|today)\b)"
            rf"[^\n]{{1,120}}? (?:in)?to {_LANGUAGE}\W*\Z)"
            rf"|(?:give me|what(?:'s| is)) the {_LANGUAGE} "
            r"(?:word|translation|phrase|term) (?:for|of)\b"
            rf"|(?:how (?:do|would|can|should) (?:you|i|we|one)|how to) say [^\n]{{1,120}}?"
            rf" in {_LANGUAGE}\b"
            rf"|what(?:'s| is) [\"“'‘][^\n]{{1,120}}?[\"”'’] in {_LANGUAGE}\b"
            rf"|{_LANGUAGE} (?:to|into|->|→) {_LANGUAGE}\s{{0,2}}:)"
        ),
        words=_words("translate translation word phrase term say in to into"),
    ),
    Rule(
        "code",
        "asks for code",
        re.compile(
            rf"{_ASK}(?:write|create|implement|generate|complete|refactor|debug|fix|optimi[sz]e|"
            r"convert|port|translate|code|build|develop|give me|show me|make|provide)\b"
            rf"[^\n.?!]{{0,80}}?\b(?:{_LANGUAGES_OF_CODE}|functions?(?! (?:of|room|hall)\b)|regex|"
            r"regular expression|unit tests?|code snippet|source code|shell ?script|"
            r"(?:this|the following|some|the|following) code)(?!\w)"
        ),
        words=_words(
            _CODE_WORDS + " c++ c# c go ruby swift perl scala bash r html xaml regular unit"
            " shell shellscript metal test tests react"
        ),
    ),
    Rule(
        "code",
        "asks about the code it brings",
        re.compile(""),
        re.compile(
            rf"\b(?:this|following|my|below) (?:{_LANGUAGES_OF_CODE} )?"
            r"(?:code|function|snippet|script|query|regex|program)\b[^\n]{0,120}[:\n`]"
        ),
        _words("code function snippet script query regex program"),
    ),
    Rule(
        "formatting",
        "asks to give the text it brings another form",
        re.compile(
            rf"{_ASK}(?:"
            rf"(?:re)?format (?:this|these|the|following|as)\b[^\n:]{{0,80}}?{_PAYLOAD}"
            rf"|(?:convert|turn|transform|put|rewrite|change)\b[^\n:]{{0,80}} (?:to|into|in|as) "
            rf"{_FORMAT}[^\n:]{{0,40}}?{_PAYLOAD}"
            r"|(?:sort|alphabeti[sz]e|deduplicate) (?:this|these|the following|the)\b[^\n:]{0,60}?"
            rf"{_PAYLOAD})"
        ),
        words=_words(
            "format reformat convert turn transform put rewrite change sort alphabetize "
            "alphabetise deduplicate"
        ),
    ),
    Rule(
        "formatting",
        "asks to correct the text it brings",
        re.compile(
            rf"{_ASK}(?:proofread\b[^\n:]{{0,60}}?{_PAYLOAD}"
            r"|(?:fix|correct|check|add)\b[^\n:]{0,40}\b(?:grammar|spelling|punctuation|typos?|"
            rf"capitali[sz]ation)\b[^\n:]{{0,50}}?{_PAYLOAD})"
        ),
        words=_words(
            "proofread grammar spelling punctuation typo typos capitalization capitalisation"
        ),
    ),
    Rule(
        "realtime",
        "asks for something that changes by the hour",
        re.compile(_ABOUT_THE_WORLD),
        re.compile(rf"\b{_TOPIC}"),
        _words(_TOPIC_WORDS),
        max_characters=200,
    ),
    Rule(
        "realtime",
        "asks about the present",
        re.compile(rf"{_QUESTION}(?![^\n]{{0,120}}\b(?:should|can|could|shall|do|am) i\b)"),
        re.compile(rf"\b{_TIME}(?!\w)"),
        _words(_TIME_WORDS),
        max_characters=160,
    ),
    Rule(
        "realtime",
        "asks about the news",
        re.compile(r"[^\n]{0,256}\?\W{0,2}\Z"),
        re.compile(
            rf"\b(?:this (?:past )?(?:week|month|summer|fall|spring|winter|season)|recently"
            rf"|(?:on|this|last) {_DAYS}|(?:last|past) (?:week|month|year)"
            r"|(?:new|recent|latest) (?:study|report|survey|poll))\b"
        ),
        _words("which who whose"),
        max_characters=240,
    ),
    *CHANGING_FACTS,
    Rule(
        "faq",
        "asks how a shop does things",
        re.compile(_NOT_WRITING),
        re.compile(
            r"\b(?:(?:refund|returns?|cancellation|shipping|warranty|exchange) "
            r"(?:policy|policies|period)"
            r"|how (?:do|can) i (?:get|request|ask for|apply for) a refund"
            r"|how (?:do|can) i return (?:an?|my|the) (?:item|product|order|purchase))\b"
        ),
        _words("refund return returns cancellation shipping warranty exchange"),
        max_characters=160,
    ),
)
