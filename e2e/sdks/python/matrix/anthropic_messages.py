"""Features of Anthropic's SDK."""

import anthropic
from anthropic import beta_tool

from ask import (
    CITY, HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL, SYSTEM, TWO, WEATHER, Person,
    call_report, cut_report, first_report, problem_report, usage_report, weather_json,
)

TOOLS = [{"name": "get_weather", "description": WEATHER, "input_schema": CITY}]
THINK = {"type": "enabled", "budget_tokens": 1024}


def connect(base_url, key):
    return anthropic.Anthropic(base_url=base_url, api_key=key, max_retries=0, timeout=20)


def said_by_user(content):
    return [{"role": "user", "content": content}]


def create(client, model, messages=said_by_user(HELLO), most=MOST, system=SYSTEM, **more):
    return client.messages.create(
        model=model, messages=messages, max_tokens=most, system=system, **more
    )


def final(client, model, messages=said_by_user(HELLO), most=MOST, system=SYSTEM, **more):
    with client.messages.stream(
        model=model, messages=messages, max_tokens=most, system=system, **more
    ) as stream:
        return stream.get_final_message()


def text_of(message):
    return "".join(b.text for b in message.content if b.type == "text")


def text(client, model):
    m = create(client, model)
    return {"text": text_of(m), "finish": m.stop_reason}


def stream(client, model):
    with client.messages.stream(
        model=model, messages=said_by_user(HELLO), max_tokens=MOST, system=SYSTEM
    ) as stream:
        deltas = list(stream.text_stream)
        m = stream.get_final_message()
    return {"deltas": deltas, "text": text_of(m), "finish": m.stop_reason}


def two_rounds(client, model, question, complete, **more):
    messages = said_by_user(question)
    more.update(tools=TOOLS, system=anthropic.NOT_GIVEN)
    first = complete(client, model, messages, **more)
    calls = [b for b in first.content if b.type == "tool_use"]
    messages.append({"role": "assistant", "content": first.content})
    messages += said_by_user(
        [
            {"type": "tool_result", "tool_use_id": c.id, "content": weather_json(c.input["city"])}
            for c in calls
        ]
    )
    second = complete(client, model, messages, **more)
    return {
        "calls": [call_report(c.name, c.input) for c in calls],
        "finish": [first.stop_reason, second.stop_reason],
        "text": text_of(second),
    }


def tools(client, model):
    return two_rounds(client, model, ONE, create)


def parallel(client, model):
    return two_rounds(client, model, TWO, final)


def sealed(client, model):
    more = {"most": MOST_THINKING, "thinking": THINK}
    return {
        "whole": two_rounds(client, model, ONE, create, **more),
        "stream": two_rounds(client, model, ONE, final, **more),
    }


def runner(client, model):
    asked = []

    @beta_tool
    def get_weather(city: str) -> str:
        """The weather of a city.

        Args:
            city: the city
        """
        asked.append(city)
        return weather_json(city)

    run = client.beta.messages.tool_runner(
        model=model, max_tokens=MOST, messages=said_by_user(ONE), tools=[get_weather]
    )
    return {"asked": asked, "text": text_of(run.until_done())}


def structured(client, model):
    m = client.messages.parse(
        model=model,
        messages=said_by_user(HELLO),
        system=SYSTEM,
        max_tokens=MOST,
        output_format=Person,
    )
    return {"parsed": m.parsed_output.model_dump()}


def image(client, model):
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content = [{"type": "text", "text": PICTURE}, {"type": "image", "source": source}]
    return {"text": text_of(create(client, model, said_by_user(content)))}


def thoughts(message):
    thought = "".join(b.thinking for b in message.content if b.type == "thinking")
    return {"reasoning": thought, "text": text_of(message)}


def reasoning(client, model):
    return {
        "whole": thoughts(create(client, model, most=MOST_THINKING, thinking=THINK)),
        "stream": thoughts(final(client, model, most=MOST_THINKING, thinking=THINK)),
    }


def tokens(u):
    cached = u.cache_read_input_tokens or 0
    details = getattr(u, "output_tokens_details", None)
    thought = details["thinking_tokens"] if isinstance(details, dict) else details and details.thinking_tokens
    fresh = u.input_tokens + (u.cache_creation_input_tokens or 0)
    return usage_report(fresh + cached, cached, u.output_tokens, thought)


def usage(client, model):
    return {"whole": tokens(create(client, model).usage), "stream": tokens(final(client, model).usage)}


def problem(call):
    try:
        call()
    except anthropic.APIStatusError as e:
        body = e.body if isinstance(e.body, dict) else {}
        message = body.get("error", {}).get("message") or str(e)
        return problem_report(e, e.status_code, message, e.response.headers.get("retry-after"))
    return {"error": None}


def error_404(client, model):
    return problem(lambda: create(client, model))


error_unknown = error_429 = error_404


def texts(stream):
    for event in stream:
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            yield event.delta.text


def cut(client, model):
    return cut_report(texts(create(client, model, stream=True)))


def cancel(client, model):
    stream = create(client, model, stream=True)
    return first_report(stream, texts(stream))


def models(client, model):
    found = list(client.models.list())
    typed = all(m.type == "model" and m.display_name and m.created_at.year > 2000 for m in found)
    return {"ids": sorted(m.id for m in found), "typed": typed}


def count_tokens(client, model):
    try:
        count = client.messages.count_tokens(
            model=model, messages=said_by_user(HELLO), system=SYSTEM, tools=TOOLS
        )
    except anthropic.APIStatusError as e:
        return {"refused": e.status_code == 501}
    return {"tokens": count.input_tokens}
