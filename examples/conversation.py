"""A short conversation in English and Chinese, three times over, through the official client.

The first time the model answers. The second and third time, whole and streamed, the cache does.
Then two questions are asked in other words, which the cache answers too, and then something else
that only looks alike, which it does not.

    python examples/conversation.py http://127.0.0.1:8080/v1
"""

import sys
import time
from typing import Any

from openai import OpenAI

CONVERSATIONS = {
    "English": ["Say hello in one short sentence.", "Thank you! Name one color."],
    "中文": ["请说：你好", "谢谢，再见！"],
}
ROUNDS = (("asked", False), ("asked again", False), ("asked again, streamed", True))
OTHER_WORDS = (
    ("How do I boil an egg?", "What is the best way to boil an egg?", "How do I boil 12 eggs?"),
    ("怎么煮鸡蛋？", "如何煮鸡蛋", "怎么煮12个鸡蛋？"),
)
"""A question, the same in other words, and another one."""

MAX_TOKENS = 64
"""A small model seldom finds an end by itself."""


def main() -> None:
    """Hold the conversations and print how each answer came."""
    base_url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1"
    client = OpenAI(base_url=base_url, api_key="demo")
    model = client.models.list().data[0].id
    for title, stream in ROUNDS:
        print(f"\n{title}")
        print(f"  {'outcome':<10}{'first byte':>12}{'whole':>10}{'tokens':>9}   answer")
        for questions in CONVERSATIONS.values():
            converse(client, model, questions, stream=stream)
    print("\nasked, asked in other words, asked something else")
    for question, other_words, look_alike in OTHER_WORDS:
        ask(client, model, [user(question)])
        time.sleep(0.5)  # Words are learned behind the answer.
        ask(client, model, [user(other_words)])
        ask(client, model, [user(look_alike)])


def converse(client: OpenAI, model: str, questions: list[str], *, stream: bool) -> None:
    """Ask one question after the other, each with all that was said before."""
    messages: list[Any] = []
    for question in questions:
        messages.append(user(question))
        messages.append(
            {"role": "assistant", "content": ask(client, model, messages, stream=stream)}
        )


def user(text: str) -> dict[str, str]:
    """Return a message of the user's."""
    return {"role": "user", "content": text}


def ask(client: OpenAI, model: str, messages: list[Any], *, stream: bool = False) -> str:
    """Ask once, print a line about it, and return the answer."""
    started = time.perf_counter()
    extra: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=messages, temperature=0, max_tokens=MAX_TOKENS, stream=stream, **extra
    )
    first_byte = time.perf_counter() - started
    reply: Any = raw.parse()
    if stream:
        text, tokens = "", 0
        for chunk in reply:
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            tokens = chunk.usage.total_tokens if chunk.usage else tokens
    else:
        text, tokens = reply.choices[0].message.content, reply.usage.total_tokens
    whole = time.perf_counter() - started
    outcome = raw.headers["x-cache"]
    if alike := raw.headers.get("x-stepwell-similarity"):
        outcome += f" {alike[:4]}"
    line = " ".join(text.split())
    shown = line if len(line) <= 60 else f"{line[:57]}..."
    print(f"  {outcome:<10}{first_byte * 1e3:>9.1f} ms{whole * 1e3:>7.0f} ms{tokens:>9}   {shown}")
    return text


if __name__ == "__main__":
    main()
