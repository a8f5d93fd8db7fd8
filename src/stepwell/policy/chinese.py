"""What the classifier knows of Chinese, as data.

Chinese has no spaces to tell words by, so these rules have no word lists to try first; they only
see texts that hold a character outside ASCII.
"""

import re
from functools import partial

from stepwell.policy.rule import Rule

_LANGUAGE = (
    "(?:[中英日韩法德俄][文语]|汉语|葡萄牙[语文]|西班牙[语文]|意大利[语文]|阿拉伯[语文]|泰[语文]|越南语|"
    "粤语|文言文|白话文?|普通话|希腊语|拉丁语|荷兰语)"
)
_PLEASE = "\\W{0,3}(?:请|帮我|帮忙|麻烦|你|您|能|可以|能否|给我|把|将|用|对){0,6}+"
_PAYLOAD = '[:：\n“"「『《]\\s{0,8}[^\\s:：]'
"""The text to work on begins here."""

_QUOTED = "[“\"「『'‘][^\n]{1,120}?[”\"」』'’]"

_CODE_LANGUAGE = (
    "(?:python|java|javascript|typescript|c\\+\\+|c#|c语言|go语言|golang|rust|php|sql|matlab|"
    "shell|bash|html|css|vue|react|js|r语言|swift|kotlin|pytorch)"
)

_ABOUT_THE_WORLD = (
    "(?![^\n]{0,12}(?:写|编|创作|解释|描述|描写|为什么|总结|概括|假设|假如|如果|扮演|推荐|分析|翻译|译))"
    "(?![^\n]{0,60}(?:区别|原理|成语|俗语|作文|故事|意思|造句|谜|歌词|诗|什么是))"
)
"""A question about the world as it is: nothing is to be made up or explained."""

_TIME = (
    "(?:今[天日晚早]|今年|明[天日]|后天|昨[天日晚]|现在|目前|当前|此刻|眼下|实时|最新|近期|最近|"
    "[本这]周|本月|这个月|刚刚)"
)
_QUESTION = "(?:[？?吗呢几哪谁]|多少|什么|怎么样|怎样|如何|是否|有没有|没有)"
_OFFICE = (
    "(?:总统|总理|首相|国王|女王|主席|市长|省长|书记|部长|校长|ceo|首席执行官|董事长|总裁|创始人|作者|"
    "导演|教皇|天皇|主教练|发明者|发明人)"
)

_rule = partial(Rule, sees_characters=128)
"""Chinese says in one character what takes English three."""

CHINESE_RULES = (
    _rule(
        "translation",
        "asks to translate the text it brings",
        re.compile(
            f"[^\n]{{0,80}}?译(?:成|为|到|作)?{_LANGUAGE}[^\n:：]{{0,16}}?{_PAYLOAD}"
            f"|{_PLEASE}[^\n:：]{{0,8}}?译(?:一下|下)?(?:以下|下面|下列|这)[^\n:：]{{0,20}}?{_PAYLOAD}"
            f"|{_PLEASE}(?:{_QUOTED}|(?!这|那|它|上|其)[^\n]{{1,60}}?)翻?译(?:成|为|到){_LANGUAGE}\\W*\\Z"
            "|[^\n]{0,6}[中英日韩法德俄]译[中英日韩法德俄]\\s?[:：]"
            "|翻译\\s?[:：]"
        ),
        re.compile("译"),
    ),
    _rule(
        "translation",
        "asks for a word in another language",
        sign=re.compile(
            f"(?:用|的){_LANGUAGE}(?:要|该)?(?:怎么|如何|咋|怎样)(?:说|写|读|讲|念|拼|表达)"
        ),
        max_characters=80,
    ),
    _rule(
        "code",
        "asks for code",
        sign=re.compile(
            f"用{_CODE_LANGUAGE}[^\n。？！]{{0,10}}?(?:写|编|实现|做|画|抓|完成|生成|读|计算|输出)"
            f"|(?:写|实现|生成|补全|优化|重构|调试|修复|提供|定义)[^\n。？！]{{0,24}}?"
            f"(?:{_CODE_LANGUAGE}|代码|爬虫|正则表达式|单元测试|存储过程)"
            "|(?:编写|实现|补全|写一?个|写出一个|定义)[^\n。？！]{0,24}?(?:函数|脚本|程序|算法)"
            "|(?:这段|以下|下面的?|下列|该|给定的?)\\w{0,12}代码"
        ),
    ),
    _rule(
        "formatting",
        "asks to give the text it brings another form",
        re.compile(
            "[^\n:：]{0,40}?(?:整理|转换|转|改写?|输出|格式化|排|变)(?:成|为)[^\n:：]{0,12}?"
            "(?:表格?|列表|清单|json|csv|yaml|xml|html|markdown|latex)[^\n:：]{0,12}?[:：\n]\\s{0,8}\\S"
            "|[^\n:：]{0,30}?(?:格式化|重新排版)[^\n:：]{0,12}?[:：\n]\\s{0,8}\\S"
            "|[^\n:：]{0,24}?(?:下面|以下|下列)[^\n:：]{0,16}?(?:排序|去重|排列)[:：\n]\\s{0,8}\\S"
        ),
    ),
    _rule(
        "formatting",
        "asks to correct the text it brings",
        re.compile(
            "[^\n:：]{0,24}?(?:改|纠|检查|找出|加上|添加|补上|更正)[^\n:：]{0,24}?"
            "(?:错别字|语法错误?|标点(?:符号)?|拼写错误?|病句)[^\n:：]{0,12}?[:：\n]\\s{0,8}\\S"
            "|[^\n:：]{0,12}?(?:校对|校正)[^\n:：]{0,16}?[:：\n]\\s{0,8}\\S"
        ),
        re.compile("错|语法|标点|病句|校"),
    ),
    _rule(
        "realtime",
        "asks for something that changes by the hour",
        re.compile(_ABOUT_THE_WORLD),
        re.compile(
            "天气(?!(?:真|很|太|不错|好好|冷了|热了|和气候))|气温|室外|空气质量|股价|股票行情|大盘"
            "|汇率|油价|金价|路况|堵车|限行|头条|热搜|比分|几点了|现在几点|农历"
            "|新闻(?!学|专业|系|稿|标题|摘要|报道|记者|评论|传播)|疫情"
            "|我的(?:快递|包裹|订单|外卖|航班|余额|账[户号]余额)|快递到哪|航班(?:状态|延误|晚点)"
            "|[今明后]天[^\n]{0,8}?(?:下雨|下雪|几度|多少度|星期几|周几|礼拜几|几号|冷吗|热吗)"
            "|(?:比特币|黄金|美元|欧元|日元|港元)[^\n]{0,8}?(?:多少|价|兑)"
        ),
        max_characters=60,
    ),
    _rule(
        "realtime",
        "asks about the present",
        # With a number in it, it is a sum, or about something that happened on a date.
        re.compile(_ABOUT_THE_WORLD + "(?![^\n]{0,60}[0-9])"),
        re.compile(f"(?<![我你]){_TIME}(?!我)[^\n，,。]{{0,24}}?{_QUESTION}"),
        max_characters=60,
    ),
    _rule(
        "factual",
        "asks for a fact that may change",
        re.compile(_ABOUT_THE_WORLD + "(?![^\n]{0,60}[我你])"),
        re.compile(
            f"{_OFFICE}[^\n]{{0,4}}?(?:是谁|叫什么|是哪)"
            f"|谁是[^\n]{{0,16}}?{_OFFICE}"
            "|首都(?:是|在|叫)"
            "|人口(?:是|有|总数|数量)?(?:是|有|大约)?多少|多少人口"
            "|[是由]谁(?:发明|写|创作|创立|建立|发现|导演|唱|演|设计)"
            "|哪一?年(?:成立|出生|去世|建成|发明|上映|登基|灭亡|开始|结束|发布|建立|爆发)"
            "|最[高长大深小](?:的)?(?:山|河|湖|楼|建筑|国家|城市|沙漠|海洋|岛|省)[^\n]{0,6}?(?:哪|什么|叫)"
        ),
        max_characters=60,
    ),
    _rule(
        "factual",
        "asks for a measure",
        # With a number in it, it is a sum.
        re.compile(_ABOUT_THE_WORLD + "(?![^\n]{0,60}[0-9一两三四五六七八九十我你])"),
        re.compile("(?:全长|身高|海拔|高度)[^\n]{0,4}?多|有多[高长大深]"),
        max_characters=40,
    ),
    _rule(
        "faq",
        "asks how a shop does things",
        sign=re.compile(
            "(?:怎么|如何|怎样)(?:申请|办理)?(?:退款|退货|退换货?|换货|开发票|开票)"
            "|(?:退货|退款|退换货?|保修|换货)(?:的)?(?:政策|流程|规则)|发票怎么开"
        ),
        max_characters=60,
    ),
)
