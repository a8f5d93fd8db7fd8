"""Opposites: words of the other direction, where one text has the one and the other the other."""

from pathlib import Path

import pytest

from stepwell.core.errors import ConfigError
from stepwell.semantic.valve.antonym import antonym, compare_by
from stepwell.semantic.valve.difference import Kind
from stepwell.semantic.valve.opposites import Opposites, read_opposites, shipped
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.valve import CHECKS, difference

DIFFERENT = [
    ("How do I keep my dog from barking?", "How do I keep my dog barking?"),
    ("How do I keep the milk from boiling?", "How do I keep the milk boiling?"),
    ("How do I prevent my skin from peeling?", "How do I make my skin peel?"),
    ("How can I stop my computer from sleeping?", "How can I make my computer sleep?"),
    ("How can I stop my hair from growing?", "How can I help my hair grow?"),
    ("How do I prevent users from editing it?", "How do I allow users to edit it?"),
    ("How do I avoid an audit?", "How do I get an audit?"),
    ("How can I prevent migraines?", "How can I treat migraines?"),
    ("How do I keep bees?", "How do I keep bees away?"),
    ("How do I get over the flu?", "How do I get the flu?"),
    ("How do I get rid of mice?", "How do I get mice?"),
    ("How do you break in shoes?", "How do you break shoes?"),
    ("How do I fill in a pool?", "How do I fill a pool?"),
    ("How do I run for office?", "How do I run an office?"),
    ("Should I give up sugar?", "Should I give sugar?"),
    ("How do I take apart a watch?", "How do I take a watch?"),
    ("How to screw in a bulb", "How to screw out a bulb"),
    ("How do I take up running?", "How do I give up running?"),
    ("怎么防止猫上床", "怎么让猫上床"),
    ("如何阻止别人看我的朋友圈", "如何让别人看我的朋友圈"),
    ("怎样防止头发变白", "怎样让头发变白"),
    ("如何制止孩子吵架", "如何让孩子吵架"),
    ("怎样阻止系统休眠", "怎样让系统进入休眠"),
    ("怎么避免铁生锈", "怎么使铁生锈"),
    ("怎么预防脱发", "怎么治疗脱发"),
    ("When was the firm founded?", "When did the firm go bankrupt?"),
    ("When was the company founded?", "When was the company dissolved?"),
    ("When was the bridge built?", "When was the bridge demolished?"),
    ("When did the band form?", "When did the band break up?"),
    ("When was Ann elected?", "When did Ann resign?"),
    ("诺基亚哪年成立", "诺基亚哪年倒闭"),
    ("明朝什么时候建立", "明朝什么时候灭亡"),
    ("How do I increase the font size?", "How do I decrease the font size?"),
    ("How can I raise my credit limit?", "How can I lower my credit limit?"),
    ("Why are rents rising in Oslo?", "Why are rents falling in Oslo?"),
    ("How do I enable the camera?", "How do I disable the camera?"),
    ("What should I do before surgery?", "What should I do after surgery?"),
    ("Can I cancel within 14 days?", "Can I cancel after 14 days?"),
    ("How do I turn on dark mode?", "How do I turn off dark mode?"),
    ("How do I switch the alarm on?", "How do I switch the alarm off?"),
    ("How do I log in to the portal?", "How do I log out of the portal?"),
    ("What is the check-in time?", "What is the check-out time?"),
    ("Is lead heavier than iron?", "Is lead lighter than iron?"),
    ("What is the minimum deposit?", "What is the maximum deposit?"),
    ("How do I upload photos?", "How do I download photos?"),
    ("Who is the buyer of the house?", "Who is the seller of the house?"),
    ("What are the pros of nuclear power?", "What are the cons of nuclear power?"),
    ("What are the symptoms of gout?", "What are the treatments of gout?"),
    ("How do I encrypt a disk?", "How do I decrypt a disk?"),
    ("Can I sort the rows in ascending order?", "Can I sort the rows in descending order?"),
    ("What is the first name of the author?", "What is the last name of the author?"),
    ("How do I opt in to emails?", "How do I opt out of emails?"),
    ("Which bird is the male?", "Which bird is the female?"),
    ("Who won the final?", "Who lost the final?"),
    ("How do I treat hypothyroidism?", "How do I treat hyperthyroidism?"),
    ("Should children under 12 pay?", "Should children over 12 pay?"),
    ("Where does the shop import tea from?", "Where does the shop export tea from?"),
    ("How do I zoom in on a map?", "How do I zoom out on a map?"),
    ("turn the heating off", "turn the heating down"),
    ("turn up the heating", "turn on the heating"),
    ("Please mute the speaker", "Please lower the speaker"),
    ("How do I take the cover off?", "How do I take the cover back?"),
    # Chinese.
    ("把暖气调低", "把暖气关掉"),
    ("哪个班最先到", "哪个班最晚到"),
    ("怎么提高音量", "怎么降低音量"),
    ("如何开启自动更新", "如何关闭自动更新"),
    ("空调怎么升温", "空调怎么降温"),
    ("饭前喝水好吗", "饭后喝水好吗"),
    ("怎么上传照片", "怎么下载照片"),
    ("学游泳有哪些好处", "学游泳有哪些坏处"),
    ("公司今年的收入是多少", "公司今年的支出是多少"),
    ("个子高的人适合什么运动", "个子矮的人适合什么运动"),
    ("怎么调大字体", "怎么调小字体"),
    ("左边的按钮是做什么的", "右边的按钮是做什么的"),
    ("房间里面有什么", "房间外面有什么"),
    ("黄金会涨价吗", "黄金会降价吗"),
    ("怎么注册会员", "怎么注销会员"),
    ("买房需要什么材料", "卖房需要什么材料"),
    ("甲亢怎么治", "甲减怎么治"),
    ("男士西装怎么选", "女士西装怎么选"),
    ("怎麼開啟定位", "怎么关闭定位"),
    ("最高温度是多少", "最低温度是多少"),
    ("有线耳机推荐", "无线耳机推荐"),
    ("存款利率是多少", "取款限额是多少"),
    ("Is it too late to plant tulips?", "Is it too early to plant tulips?"),
    ("What comes after lunch?", "What comes before lunch?"),
    ("怎么恢复订阅", "怎么暂停订阅"),
    ("空调怎么制冷", "空调怎么制热"),
    ("什么时候上课", "什么时候下课"),
    ("How do I thicken the soup?", "How do I dilute the soup?"),
    ("A one-way ferry to Bergen", "A round trip ferry to Bergen"),
    ("首班渡轮几点开", "末班渡轮几点开"),
    ("面条太咸了", "面条太淡了"),
    ("How do I ban a guest?", "How do I unban a guest?"),
    ("How do I arm the siren?", "How do I disarm the siren?"),
    ("How do I book a court?", "How do I cancel a court?"),
    ("How do I renew my pass?", "How do I stop renewing my pass?"),
    ("存折怎么挂失", "存折怎么解挂"),
    ("学校怎么选课", "学校怎么退课"),
    ("怎么续费乐园年卡", "怎么取消乐园年卡续费"),
    ("同城搬家多少钱", "异地搬家多少钱"),
]

ALIKE = [
    ("How do I keep my dog from barking?", "How do I stop my dog barking?"),
    ("How do I keep my dog from barking?", "How do I make my dog stop barking?"),
    ("How do I keep my dog from barking?", "How can I get my dog to not bark?"),
    ("How can I keep my phone from overheating?", "How can I prevent my phone from overheating?"),
    ("How do I stop my hands from getting dry?", "What can help me with dry hands?"),
    ("What helps prevent hair loss?", "How do I prevent hair loss?"),
    ("How do I keep flies away?", "How do I keep flies out?"),
    ("How do I fill out the form?", "How do I fill in the form?"),
    ("How do I fill in the form?", "How do I fill the form?"),
    ("How do I clean up my room?", "How do I clean my room?"),
    ("How do I get out my card?", "How do I get my card?"),
    ("怎么防止猫上床", "怎么让猫不上床"),
    ("怎么阻止系统自动更新", "怎么让系统停止自动更新"),
    ("怎么让孩子少玩手机", "怎么防止孩子玩手机"),
    ("怎么预防脱发", "怎样防止脱发"),
    ("When was the firm founded?", "When was the firm established?"),
    ("When was the bridge built?", "When was the bridge constructed?"),
    ("诺基亚哪年成立", "诺基亚什么时候创立的"),
    ("turn the heating off", "switch off the heating"),
    ("mute the speaker", "turn the speaker off"),
    ("turn down the heating", "lower the heating"),
    ("How do I log in to the portal?", "How do I sign on to the portal?"),
    ("Please shut down the server", "Please turn off the server"),
    ("Look at the bird on the roof", "Look at the bird up on the roof"),
    ("How do I increase the font size?", "How do I make the font bigger?"),
    ("What are the pros and cons of tea?", "What are the advantages and disadvantages of tea?"),
    ("How do I set up a router?", "How do I install a router?"),
    ("Is the lake not safe?", "Is the lake dangerous?"),
    ("Is Rome hotter than Oslo?", "Is Oslo colder than Rome?"),
    ("How do I break up with someone?", "How do I break it off with someone?"),
    ("What time does the bank open and close?", "When does the bank close and open?"),
    ("Zip the old folder", "Compress the old folder into a zip"),
    ("What do left and right mean in politics?", "What do right and left mean in politics?"),
    ("Look up the word bank", "Write down what the word bank means"),
    ("What kind of cheese is this?", "What does this cheese mean to France?"),
    # Chinese.
    ("怎么提高音量", "怎么增大音量"),
    ("这个药的优点和缺点", "这个药有哪些优缺点"),
    ("开关怎么接线", "开关如何接线"),
    ("这里不安全吗", "这里危险吗"),
    ("买卖合同怎么写", "如何写买卖合同"),
    ("上海有哪些大学", "下列哪些大学在上海"),
    ("大家都喜欢什么", "人们喜欢什么"),
    ("大象比老鼠大吗", "老鼠比大象小吗"),
    ("How do I cancel the renewal of my pass?", "How do I stop my pass from renewing?"),
    ("取消绑定", "解绑"),
    ("怎么关闭取消年卡", "怎么关闭年卡"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_opposites_differ(one: str, other: str) -> None:
    """Both ways round."""
    for asked, stored in ((one, other), (other, one)):
        found = antonym(read(asked), read(stored))
        assert found is not None
        assert found.kind is Kind.ANTONYM
        assert found.asked != found.stored


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_says_the_same_does_not(one: str, other: str) -> None:
    """Nor does it when asked the other way round."""
    assert antonym(read(one), read(other)) is None
    assert antonym(read(other), read(one)) is None


def test_there_are_some_hundred_groups_in_each_language() -> None:
    """Every one of them is found."""
    assert antonym(read("hydrate the skin"), read("dehydrate the skin")) is not None
    assert shipped() is shipped()


def test_own_opposites(tmp_path: Path) -> None:
    """A file of one's own is one more check."""
    path = tmp_path / "own.txt"
    path.write_text("# ours\nstarboard, right side | port side\n\n左舷 | 右舷  # ships\n", "utf-8")
    check = compare_by(read_opposites(path))
    asked, stored = read("Paint the starboard wall"), read("Paint the port side wall")
    assert check(asked, stored) is not None
    assert antonym(asked, stored) is None
    assert check(read("左舷在哪"), read("右舷在哪")) is not None
    checks = (*CHECKS, check)
    assert difference(asked, stored) is None
    assert difference(asked, stored, checks) is not None
    assert difference(read("Turn it on"), read("Turn it off"), checks) is not None


def test_own_opposites_that_cannot_be_read(tmp_path: Path) -> None:
    """The error names the file and the line."""
    with pytest.raises(ConfigError, match=r"none\.txt cannot be read"):
        read_opposites(tmp_path / "none.txt")
    path = tmp_path / "wrong.txt"
    for wrong in (b"a, b", b"a |", b"a | b | c"):
        path.write_bytes(b"# ours\n\na | b\n" + wrong)
        with pytest.raises(ConfigError, match=r"opposites: .*wrong\.txt line 4: 'a.*expected"):
            read_opposites(path)
    with pytest.raises(ConfigError, match="is no file"):
        read_opposites(Path("/dev/zero"))
    path.write_bytes(b"up | down\n" * 200_000)
    with pytest.raises(ConfigError, match="has more than"):
        read_opposites(path)
    path.write_bytes(b"\xff | b")
    with pytest.raises(ConfigError, match=r"wrong\.txt cannot be read"):
        read_opposites(path)


def test_a_word_with_a_tilde_counts_in_place_only() -> None:
    """Where what stands before or behind it is the same."""
    check = compare_by(Opposites(["~warp | ~weft"]))
    assert check(read("the warp thread"), read("the weft thread")) is not None
    assert check(read("set warp speed"), read("a basket of weft")) is None


@pytest.mark.parametrize("line", ["up down", "up |", "| down", "a | b | c"])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    """With the line in the message."""
    with pytest.raises(ConfigError, match="expected 'words"):
        Opposites([line])
