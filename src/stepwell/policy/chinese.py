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
_STAYS = (
    "(?![^\n]{0,60}(?:[我你您咱]|[0-9]{3,4}年|第[一二三四五六七八九十0-9]{1,3}[任位届代个]|首任|首位|前任|"
    "历任|前总|前首|曾|历史上|古代|创始|电影|电视剧|小说|动漫|游戏|剧中|怎么|如何))"
)
"""Nobody's own, not what was, and nothing made up: what is told of those does not change."""

_OFFICE = (
    "(?:总统|总理|首相|国王|女王|天皇|教皇|元首|主席|秘书长|总干事|市长|省长|州长|总书记|[省市县]委书记|"
    "部长|大臣|大使|发言人|领导人|校长|院长|行长|局长|ceo|首席执行官|董事长|总裁|老板|主教练|队长)"
)
_NOT_A_SUM = (
    "(?![^\n]{0,60}(?:元|[花用付]了|一共|还剩|找[回给]|每[个本支只斤千]|平均每|便宜了|息|[借贷]|分期|额度|"
    "[0-9]{4}|[0-9一两二三五十]万))"
)
"""Neither a sum nor the terms of a loan."""

_AMOUNT = "(?:大约|大概|一般|目前|现在|已经?|[是有为要达]){0,3}(?:多少|多高|几)"

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
        "asks who holds an office or a record",
        re.compile(_ABOUT_THE_WORLD + _STAYS),
        re.compile(
            f"{_OFFICE}(?:目前|现在)?(?:是谁|叫什么|是哪)(?![演唱写饰扮杀])"
            f"|谁是[^\n]{{0,16}}?{_OFFICE}"
            f"|现任[^\n]{{0,24}}?{_QUESTION}"
            "|首富(?:目前|现在)?(?:[是叫有]|的?(?:身价|财富|资产))|谁是[^\n]{0,12}?首富"
            f"|(?:世界[纪记]录|[纪记]录保持者|卫冕冠军|世界冠军|世界第一(?![大高长深]))[^\n]{{0,12}}?{_QUESTION}"
            f"|最(?:有钱|富有|富裕|值钱|畅销)的?[^\n]{{0,12}}?{_QUESTION}"
        ),
        max_characters=60,
    ),
    _rule(
        "factual",
        "asks for a count, a price or a rank that changes",
        re.compile(_ABOUT_THE_WORLD + _STAYS + _NOT_A_SUM),
        re.compile(
            f"人口(?:总数|数量|总量|密度)?{_AMOUNT}|多少(?:常住)?人口|人口最[多少]"
            "|(?:[国省市县]|世界|全球)(?:上|一共|总共)?有多少(?:个|亿|万)?人(?!民币|次)"
            "|多少(?:万|亿|名|个)?(?:员工|用户|粉丝|会员|网民)"
            "|(?:gdp|国内生产总值|失业率|通货膨胀率|通胀率|出生率|房价|物价|最低工资|平均工资|市值|身价|"
            f"净资产|价格|售价|票价|房租|租金|学费|门票){_AMOUNT}"
            f"|市值最[高大][^\n]{{0,12}}?{_QUESTION}"
            "|(?<![欠还赚挣有剩存提收])多少钱(?!以[上内下]|可以|才)"
            "|排名(?:第|前[0-9一二三五十百]|多少)|排第几|排行榜"
        ),
        max_characters=40,
    ),
    _rule(
        "factual",
        "asks how old somebody is",
        re.compile(
            _ABOUT_THE_WORLD
            + _STAYS
            + "(?![^\n]{0,20}(?:[他她它这那死活寿时孩最不]|[去逝]世|享年|宝宝|结婚|退休|法定|平均))"
            "[^\n]{2,14}?(?:几岁|多少岁|多大(?:了|年[纪龄]|岁数)|年龄是?多[少大])[了啊呀呢吗]{0,2}"
            "\\W*\\Z"
        ),
        max_characters=24,
    ),
    _rule(
        "factual",
        "asks for what is current",
        re.compile(_ABOUT_THE_WORLD + "(?![^\n]{0,60}[我你您])"),
        re.compile(f"截[至止]到?(?:目前|现在|今年|去年|[0-9]{{4}}年)[^\n]{{0,40}}?{_QUESTION}"),
        max_characters=60,
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
