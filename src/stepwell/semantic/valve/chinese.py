"""Chinese words that carry no content."""

_WORDS_WITHOUT_CONTENT = """
的 了 吗 呢 吧 啊 呀 哦 嘛 么 地 得 着 过 是 在 就 都 也 还 又 再 很 太 更 最 那 这 我 你 您 他
她 它 我们 你们 他们 她们 它们 咱们 大家 自己 这个 那个 这些 那些 这样 那样 一个 一下 一些 有
没有 没 不 要 会 能 可以 可 应该 该 想 请 请问 麻烦 帮 帮我 谢谢 你好 您好 告诉 知道 怎么 怎样
如何 什么 为什么 为何 哪 哪里 哪儿 哪些 哪个 谁 多少 几 几个 何时 什么时候 怎么办 怎么样 咋 咋样
是不是 能不能 有没有 可不可以 会不会 要不要 是否 能否 可否 和 与 跟 同 及 以及 或 或者 但 但是
而 而且 如果 因为 所以 从 到 把 被 给 对 向 由 用 让 使 于 以 之 其 所 个 种 次 些 里 中 上 下
做 进行 现在 时候 时 才 只 啥 吃了 一 比较 觉得 需要
"""
EMPTY = frozenset(_WORDS_WITHOUT_CONTENT.split())
"""Words that carry no content of their own. Some of them are what a check looks for."""
