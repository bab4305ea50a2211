"""What a user does with the OpenAI SDK for Python, by name."""

import asyncio
import json
import sys

import openai
from pydantic import BaseModel

from reports import chat_report, choices_report, failure, status_report, text, usage_report

UNICODE = "Grüße, 世界! עברית \u2028 é e\u0301 👩‍👩‍👧 \U0001f9ff \\ \" \t \u0001 </script>"
ASK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Say hello."},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]


class Person(BaseModel):
    name: str
    age: int
    tags: list[str]


# Chat


def ask(client, messages=ASK, model="gpt-real", **more):
    return client.chat.completions.create(model=model, messages=messages, **more)


def chat_text(client):
    return chat_report(ask(client, temperature=0.2, max_completion_tokens=64, seed=7))


def chat_unicode(client):
    return chat_report(ask(client, [{"role": "user", "content": UNICODE}]))


def chat_alias(client):
    return chat_report(ask(client, model="alias", user="alias"))


def chat_slashed(client):
    return chat_report(ask(client, model="vendor/slashed"))


def ask_at_length(client, mebibytes):
    return ask(client, [{"role": "user", "content": "0123456789abcdef" * (mebibytes << 16)}])


def chat_large(client):
    return {"length": len(ask_at_length(client, 4).choices[0].message.content)}


def chat_n2(client):
    return choices_report(ask(client, n=2))


def chat_extra_fields(client):
    c = ask(client, extra_body={"top_k": 7, "vendor_hint": {"depth": 1.5, "none": None, "tags": []}})
    m = c.choices[0].message
    return {"content": m.content, "reasoning_content": m.reasoning_content, "timings": c.timings}


def chat_headers(client):
    r = client.chat.completions.with_raw_response.create(model="gpt-real", messages=ASK)
    return {
        "content": r.parse().choices[0].message.content,
        "remaining": text(r.headers.get("x-ratelimit-remaining-requests")),
        "reset": text(r.headers.get("x-ratelimit-reset-tokens")),
    }


# Streams


def stream_helper(client):
    deltas = []
    with client.chat.completions.stream(model="gpt-real", messages=ASK) as stream:
        for event in stream:
            if event.type == "content.delta" and event.delta:
                deltas.append(event.delta)
        c = stream.get_final_completion()
    choice = c.choices[0]
    return {
        "id": c.id,
        "model": c.model,
        "deltas": deltas,
        "content": choice.message.content,
        "finish": choice.finish_reason,
    }


def stream_raw(client):
    chunks, finish, error = [], "", None
    try:
        for chunk in ask(client, model="alias", stream=True):
            chunks.append(text(chunk.choices[0].delta.content))
            finish = chunk.choices[0].finish_reason or finish
    except Exception as e:  # whatever it is, it is reported by its class
        error = failure(e)
    return {"chunks": chunks, "finish": finish, "error": error}


async def stream_async(client):
    chunks, finish = [], ""
    async for chunk in await ask(client, stream=True):
        chunks.append(text(chunk.choices[0].delta.content))
        finish = chunk.choices[0].finish_reason or finish
    return {"chunks": chunks, "finish": finish, "error": None}


def stream_usage(client):
    content, usage, bare = "", None, 0
    for chunk in ask(client, stream=True, stream_options={"include_usage": True}):
        if not chunk.choices:
            bare += 1
        for choice in chunk.choices:
            content += text(choice.delta.content)
        usage = chunk.usage or usage
    return {"content": content, "usage": usage_report(usage), "chunks_without_choices": bare}


def stream_n2(client):
    with client.chat.completions.stream(model="gpt-real", messages=ASK, n=2) as stream:
        return choices_report(stream.get_final_completion())


def cut_stream_helper(client):
    try:
        with client.chat.completions.stream(model="gpt-real", messages=ASK, tools=TOOLS) as stream:
            c = stream.get_final_completion()
    except Exception as e:
        return {"content": None, "error": failure(e)}
    return {"content": c.choices[0].message.content, "error": None}


def cut_whole(client):
    try:
        c = ask(client)
    except Exception as e:
        return {"content": None, "error": failure(e)}
    return {"content": c.choices[0].message.content, "error": None}


# Tools: the model's calls, their results, the answer


def weather(arguments):
    return json.dumps({"degrees": 21 if json.loads(arguments)["city"] == "Paris" else 22})


def tools_report(client, complete):
    messages = [{"role": "user", "content": "How warm is it in Paris and in Köln?"}]
    first = complete(client, messages)
    calls = first.message.tool_calls
    messages.append(
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.function.name, "arguments": c.function.arguments},
                }
                for c in calls
            ],
        }
    )
    for c in calls:
        messages.append(
            {"role": "tool", "tool_call_id": c.id, "content": weather(c.function.arguments)}
        )
    second = complete(client, messages)
    return {
        "calls": [
            {"id": c.id, "name": c.function.name, "arguments": c.function.arguments} for c in calls
        ],
        "finish": [first.finish_reason, second.finish_reason],
        "content": second.message.content,
    }


def tools_whole(client):
    return tools_report(client, lambda c, messages: ask(c, messages, tools=TOOLS).choices[0])


def tools_stream(client):
    def complete(c, messages):
        with c.chat.completions.stream(model="gpt-real", messages=messages, tools=TOOLS) as stream:
            return stream.get_final_completion().choices[0]

    return tools_report(client, complete)


# Structured output


def parsed_report(message):
    return {
        "parsed": message.parsed.model_dump() if message.parsed else None,
        "refusal": text(message.refusal),
    }


def structured_whole(client):
    c = client.chat.completions.parse(model="gpt-real", messages=ASK, response_format=Person)
    return parsed_report(c.choices[0].message)


def structured_stream(client):
    with client.chat.completions.stream(
        model="gpt-real", messages=ASK, response_format=Person
    ) as stream:
        return parsed_report(stream.get_final_completion().choices[0].message)


# Embeddings and models


def embeddings(client, **more):
    r = client.embeddings.create(model="embed", input=["eins", "zwei ✓"], **more)
    return {
        "vectors": [d.embedding for d in r.data],
        "usage": {"prompt": r.usage.prompt_tokens, "total": r.usage.total_tokens},
        "model": r.model,
    }


def embeddings_float(client):
    return embeddings(client, encoding_format="float", dimensions=3)


def models_list(client):
    return {"ids": sorted(m.id for m in client.models.list())}


def retrieve(client, model):
    m = client.models.retrieve(model)
    return {"id": m.id, "object": m.object, "owned_by": m.owned_by}


# Errors


def refused(call):
    """The report of a call that must fail with a status."""

    def scenario(client):
        try:
            call(client)
        except openai.APIStatusError as e:
            return status_report(e)
        return {"error": None}

    return scenario


def retry_after_rate_limit(client):
    return chat_report(ask(client.with_options(max_retries=1)))


# Going away


def cancel_stream(client):
    chunks = []
    stream = ask(client, stream=True)
    for chunk in stream:
        chunks.append(text(chunk.choices[0].delta.content))
        if len(chunks) == 2:
            break
    stream.close()
    return {"chunks": chunks}


async def cancelled(request):
    task = asyncio.ensure_future(request)
    await asyncio.to_thread(sys.stdin.readline)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return {"cancelled": True}
    return {"cancelled": False}


async def cancel_waiting(client):
    return await cancelled(ask(client, stream=True))


async def cancel_whole(client):
    return await cancelled(ask(client))


SCENARIOS = {
    "chat_text": chat_text,
    "chat_unicode": chat_unicode,
    "chat_escapes": chat_text,
    "chat_alias": chat_alias,
    "chat_slashed": chat_slashed,
    "chat_gzip": chat_text,
    "chat_large": chat_large,
    "chat_n2": chat_n2,
    "chat_extra_fields": chat_extra_fields,
    "chat_headers": chat_headers,
    "stream_helper": stream_helper,
    "stream_raw": stream_raw,
    "stream_async": stream_async,
    "stream_unicode": stream_raw,
    "stream_framing": stream_raw,
    "stream_no_done": stream_raw,
    "stream_usage": stream_usage,
    "stream_n2": stream_n2,
    "tools_whole": tools_whole,
    "tools_stream": tools_stream,
    "structured_whole": structured_whole,
    "structured_stream": structured_stream,
    "structured_refusal": structured_whole,
    "embeddings": embeddings,
    "embeddings_float": embeddings_float,
    "models_list": models_list,
    "models_retrieve": lambda client: retrieve(client, "gpt-real"),
    "models_retrieve_slashed": lambda client: retrieve(client, "vendor/slashed"),
    "error_model_not_found": refused(lambda client: ask(client, model="no-such-model")),
    "error_model_retrieve": refused(lambda client: retrieve(client, "no-such/model")),
    "error_auth": refused(ask),
    "error_media_type": refused(lambda client: ask(client, extra_headers={"Content-Type": "text/plain"})),
    "error_body_limit": refused(lambda client: ask_at_length(client, 12)),
    "error_bad_request": refused(lambda client: ask(client, stop=list("abcdefghi"))),
    "error_too_large": refused(ask),
    "error_rate_limit": refused(ask),
    "error_rate_limit_stream": refused(lambda client: ask(client, stream=True)),
    "retry_after_rate_limit": retry_after_rate_limit,
    "error_server": refused(ask),
    "error_provider_key": refused(ask),
    "error_not_json": refused(ask),
    "cut_stream": stream_raw,
    "cut_stream_clean": stream_raw,
    "cut_stream_helper": cut_stream_helper,
    "cut_tool_call": cut_stream_helper,
    "cut_whole": cut_whole,
    "stream_error_event": stream_raw,
    "stream_error_event_late": stream_raw,
    "stream_error_event_first": stream_raw,
    "cancel_stream": cancel_stream,
    "cancel_waiting": cancel_waiting,
    "cancel_whole": cancel_whole,
}
