"""From a flight to one reader's reply: live, whole, or written anew."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest
from support.walk import STREAM, completion, make_question

from stepwell.core.entry import Usage
from stepwell.core.errors import UpstreamBroken, UpstreamError
from stepwell.core.events import Result
from stepwell.core.names import Form, LayerName, Position
from stepwell.core.outcome import Bypass, Miss
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed
from stepwell.pipeline.leg import MAX_HELD_BYTES
from stepwell.pipeline.plan import Forward
from stepwell.pipeline.question import Question
from stepwell.pipeline.relay import Relay, Unsuitable
from stepwell.pipeline.served import Body
from stepwell.testing.entries import make_entry
from stepwell.wire.sse import MAX_EVENT_BYTES

MADE = Made(Position(0), (), Position(0))
WHOLE = Head(200, (("content-type", "application/json"),), Form.JSON)
STEP = Forward(Miss(LayerName.EXACT), fill=True, share=True)
BROKEN = UpstreamBroken("broke", upstream="upstream")


def make_relay(
    flight: Flight,
    *,
    leads: bool = True,
    question: Question | None = None,
    step: Forward = STEP,
) -> Relay:
    """Return one reader's way out of ``flight``."""
    return Relay(question or make_question(), step, flight, flight.join(), leads)


async def landed(*chunks: bytes, head: Head = WHOLE, end: Landed | None = None) -> Flight:
    """Return a flight that has come to its end."""
    flight = Flight(MADE, max_kept_bytes=1 << 30)
    flight.begin(head)
    for chunk in chunks:
        await flight.extend(chunk)
    flight.finish(end or Landed(None))
    return flight


async def test_a_whole_reply_says_whether_it_was_stored() -> None:
    """Known when it is handed on; the leader saved nothing, the follower what it took."""
    entry = make_entry(body=completion())
    flight = await landed(completion(), end=Landed(entry))
    served = [await make_relay(flight, leads=leads).serve(WHOLE) for leads in (True, False)]
    assert [one.body for one in served] == [completion()] * 2
    assert [one.result for one in served] == [Result.MISS, Result.COLLAPSED]
    assert [one.stored for one in served] == [True, True]
    assert [one.saved_seconds for one in served] == [0.0, entry.upstream_seconds]
    assert [one.usage for one in served] == [entry.usage] * 2
    assert served[0].headers == WHOLE.headers


async def test_a_miss_says_what_the_model_server_had_cached() -> None:
    """If the server says so. What another's call found cached is nothing of a follower's trail."""
    usage = Usage(830, 4, 812)
    entry = replace(make_entry(body=completion()), usage=usage)
    for end in (Landed(entry), Landed(None, "truncated", usage)):
        flight = await landed(completion(), end=end)
        led, followed = [await make_relay(flight, leads=one).serve(WHOLE) for one in (True, False)]
        assert "prefix: 812 of 830 tokens" in led.trail
        assert not any(step.startswith("prefix") for step in followed.trail)
    silent = await landed(completion(), end=Landed(make_entry(body=completion())))
    served = await make_relay(silent).serve(WHOLE)
    assert not any(step.startswith("prefix") for step in served.trail)


@dataclass
class Notes:
    """Implements `SupportsNotes`."""

    noted: tuple[str, ...]


@pytest.mark.parametrize("leads", [True, False])
async def test_what_is_noted_of_a_call_while_it_is_answered_is_in_the_trail(*, leads: bool) -> None:
    """Of whoever it was made for: a stream's trail is written at its end."""
    notes = Notes(("not known yet",))
    head = Head(200, (("content-type", "text/event-stream"),), Form.SSE, notes)
    flight = Flight(MADE, max_kept_bytes=1 << 30)
    flight.begin(head)
    served = await make_relay(flight, leads=leads, question=make_question(shape=STREAM)).serve(head)
    assert served.trail == ("exact: miss", *(notes.noted if leads else ()), "upstream: 200")
    notes.noted = ("812 of 830 tokens",)
    await flight.extend(b"data: [DONE]\n\n")
    flight.finish(Landed(None, "truncated"))
    assert isinstance(served.body, Body)
    async for _ in served.body.chunks:
        pass
    served.body.close()
    assert served.trail[1:-1] == ((*notes.noted, "upstream: 200") if leads else ("upstream: 200",))


async def test_a_bypass_is_called_one() -> None:
    """Nobody's miss: the cache was not asked."""
    step = Forward(Bypass("store"), fill=False, share=False)
    flight = await landed(completion())
    served = await make_relay(flight, question=make_question(bypass="store"), step=step).serve(
        WHOLE
    )
    assert (served.result, served.stored, served.key) == (Result.BYPASS, False, None)
    assert served.trail == ("bypass: store", "upstream: 200")


@pytest.mark.parametrize("error", [None, BROKEN])
async def test_a_reply_too_large_to_wait_for_is_passed_on_as_it_comes(
    error: UpstreamError | None,
) -> None:
    """Every byte once and in order; how it ends is how it ends."""
    flight = Flight(MADE, max_kept_bytes=1 << 30)
    flight.begin(WHOLE)
    chunks = [bytes([number]) * (1 << 20) for number in range(10)]
    for chunk in chunks[:9]:
        await flight.extend(chunk)
    served = await make_relay(flight).serve(WHOLE)
    assert isinstance(served.body, Body)
    assert not served.stored
    read = b""
    with pytest.raises(UpstreamBroken) if error else nullcontext():
        async for chunk in served.body.chunks:
            read += chunk
            if len(read) == 9 << 20:
                await flight.extend(chunks[9])
                flight.finish(Crashed(error) if error else Landed(None))
    served.body.close()
    assert read == b"".join(chunks)
    assert len(read) > MAX_HELD_BYTES


async def test_a_whole_reply_that_breaks_is_an_error() -> None:
    """None of it was handed on."""
    flight = Flight(MADE, max_kept_bytes=1_000)
    flight.begin(WHOLE)
    await flight.extend(b"{")
    flight.finish(Crashed(BROKEN))
    with pytest.raises(UpstreamBroken):
        await make_relay(flight).serve(WHOLE)


@pytest.mark.parametrize("chunk", [b"{}", b"{", b'{"choices":[]'])
async def test_what_is_no_answer_is_not_written_anew(chunk: bytes) -> None:
    """A follower in another form needs a whole one."""
    flight = await landed(chunk)
    relaying = make_relay(flight, leads=False, question=make_question(shape=STREAM))
    with pytest.raises(Unsuitable):
        await relaying.serve(WHOLE)


async def test_what_was_not_kept_is_not_written_anew() -> None:
    """It was too large."""
    flight = Flight(MADE, max_kept_bytes=1)
    relaying = make_relay(flight, leads=False, question=make_question(shape=STREAM))
    flight.begin(WHOLE)
    await flight.extend(completion())
    flight.finish(Landed(None))
    with pytest.raises(Unsuitable):
        await relaying.serve(WHOLE)


async def test_an_error_is_handed_on_in_whatever_form_it_has() -> None:
    """A follower that wants a stream gets the model server's own 400."""
    head = Head(400, (("content-type", "application/json"),), Form.JSON)
    flight = await landed(b'{"error":{}}', head=head)
    served = await make_relay(flight, leads=False, question=make_question(shape=STREAM)).serve(head)
    assert (served.status, served.body, served.form) == (400, b'{"error":{}}', Form.JSON)


async def test_the_leader_gets_what_the_model_server_sends() -> None:
    """Also where it is not what was asked for: nobody knows better."""
    flight = await landed(completion())
    served = await make_relay(flight, question=make_question(shape=STREAM)).serve(WHOLE)
    assert (served.form, served.body) == (Form.JSON, completion())


async def test_an_event_past_its_bound_ends_a_stream_with_an_error() -> None:
    """It is held back to look for usage in it, so it must have a bound."""
    head = Head(200, (("content-type", "text/event-stream"),), Form.SSE)
    flight = await landed(b"data: " + bytes(MAX_EVENT_BYTES), head=head)
    served = await make_relay(flight, question=make_question(shape=STREAM)).serve(head)
    assert isinstance(served.body, Body)
    body = b"".join([chunk async for chunk in served.body.chunks])
    served.body.close()
    assert b'"error":' in body
    assert served.result is Result.ERROR


async def test_a_follower_in_another_form_waits_for_the_end() -> None:
    """And is told nothing of the model server's own header fields."""
    flight = await landed(completion("Yes, it is."))
    served = await make_relay(flight, leads=False, question=make_question(shape=STREAM)).serve(
        WHOLE
    )
    assert (served.form, served.headers, served.result) == (Form.SSE, (), Result.COLLAPSED)
    assert isinstance(served.body, bytes)
    assert served.body.endswith(b"data: [DONE]\n\n")
    assert served.status == 200
