"""Features of OpenAI's SDK on Chat Completions."""

import json

import openai

from ask import (
    CITY, HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL, SYSTEM, TWO, WEATHER, Person,
    call_report, cut_report, first_report, problem_report, usage_report, weather_json,
)

ASK = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": HELLO}]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": WEATHER, "strict": True, "parameters": CITY},
    }
]


def connect(base_url, key):
    return openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=20)


def create(client, model, messages=ASK, most=MOST, **more):
    return client.chat.completions.create(
        model=model, messages=messages, max_completion_tokens=most, **more
    )


def final(client, model, messages=ASK, most=MOST, **more):
    with client.chat.completions.stream(
        model=model, messages=messages, max_completion_tokens=most, **more
    ) as stream:
        return stream.get_final_completion()


def text(client, model):
    choice = create(client, model).choices[0]
    return {"text": choice.message.content, "finish": choice.finish_reason}


def stream(client, model):
    deltas = []
    with client.chat.completions.stream(
        model=model, messages=ASK, max_completion_tokens=MOST
    ) as stream:
        for event in stream:
            if event.type == "content.delta" and event.delta:
                deltas.append(event.delta)
        choice = stream.get_final_completion().choices[0]
    return {"deltas": deltas, "text": choice.message.content, "finish": choice.finish_reason}


def two_rounds(client, model, question, complete):
    messages = [{"role": "user", "content": question}]
    first = complete(client, model, messages, tools=TOOLS).choices[0]
    calls = first.message.tool_calls
    told = [
        {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
        for c in calls
    ]
    messages.append({"role": "assistant", "tool_calls": told})
    for c in calls:
        city = json.loads(c.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": c.id, "content": weather_json(city)})
    second = complete(client, model, messages, tools=TOOLS).choices[0]
    return {
        "calls": [
            call_report(c.function.name, json.loads(c.function.arguments)) for c in calls
        ],
        "finish": [first.finish_reason, second.finish_reason],
        "text": second.message.content,
    }


def tools(client, model):
    return two_rounds(client, model, ONE, create)


def parallel(client, model):
    return two_rounds(client, model, TWO, final)


def structured(client, model):
    c = client.chat.completions.parse(
        model=model, messages=ASK, max_completion_tokens=MOST, response_format=Person
    )
    return {"parsed": c.choices[0].message.parsed.model_dump()}


def image(client, model):
    content = [
        {"type": "text", "text": PICTURE},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    c = create(client, model, [ASK[0], {"role": "user", "content": content}])
    return {"text": c.choices[0].message.content}


def reasoning(client, model):
    m = create(client, model, most=MOST_THINKING, reasoning_effort="low").choices[0].message
    said, thought = "", ""
    for chunk in create(client, model, most=MOST_THINKING, reasoning_effort="low", stream=True):
        for choice in chunk.choices:
            said += choice.delta.content or ""
            thought += getattr(choice.delta, "reasoning_content", None) or ""
    return {
        "whole": {"reasoning": getattr(m, "reasoning_content", None), "text": m.content},
        "stream": {"reasoning": thought, "text": said},
    }


def tokens(u):
    return usage_report(
        u.prompt_tokens,
        u.prompt_tokens_details.cached_tokens,
        u.completion_tokens,
        u.completion_tokens_details.reasoning_tokens,
    )


def usage(client, model):
    return {
        "whole": tokens(create(client, model).usage),
        "stream": tokens(final(client, model, stream_options={"include_usage": True}).usage),
    }


def problem(call):
    try:
        call()
    except openai.APIStatusError as e:
        message = e.body.get("message") if isinstance(e.body, dict) else str(e)
        return problem_report(e, e.status_code, message, e.response.headers.get("retry-after"))
    return {"error": None}


def error_404(client, model):
    return problem(lambda: create(client, model))


error_unknown = error_429 = error_404


def texts(stream):
    for chunk in stream:
        for choice in chunk.choices:
            yield choice.delta.content or ""


def cut(client, model):
    return cut_report(texts(create(client, model, stream=True)))


def cancel(client, model):
    stream = create(client, model, stream=True)
    return first_report(stream, texts(stream))


def models(client, model):
    found = list(client.models.list())
    typed = all(m.object == "model" and m.created > 0 and m.owned_by for m in found)
    return {"ids": sorted(m.id for m in found), "typed": typed}
