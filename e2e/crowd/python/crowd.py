"""Clients of the vendors' SDKs for Python that talk to a gateway all at once.

The arguments are the gateway's origin, the key, how many clients each SDK has and for
how many seconds they talk. Each answer is one line of JSON on standard output.
"""

import json
import random
import sys
import threading
import time

import anthropic
import openai
from google import genai
from google.genai import types

URL, KEY, EACH, SECONDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
MODELS = ["on-openai-chat", "on-openai-responses", "on-anthropic"]
FORMS = "on-openai-chat"  # the engine holds to a schema in this dialect only
MOST = 64
HURRY = 16  # tokens of an answer in plain text
LEAVES = 0.2  # of the streams


def schema(nonce):
    return {
        "type": "object",
        "properties": {"id": {"type": "string", "enum": [nonce]}},
        "required": ["id"],
        "additionalProperties": False,
    }


class Order:
    """What is asked, and whether the client leaves before it has all of the answer."""

    def __init__(self, dice, nonce):
        self.nonce, self.model = nonce, dice.choice(MODELS)
        self.stream, self.formed = dice.random() < 0.6, self.model == FORMS and dice.random() < 0.7
        self.leaves = self.stream and dice.random() < LEAVES
        self.prompt = f"Write a long story about {nonce}."
        self.most = MOST if self.formed or self.leaves else HURRY


def chat(client, o):
    more = {}
    if o.formed:
        more["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "ticket", "strict": True, "schema": schema(o.nonce)},
        }
    messages = [{"role": "user", "content": o.prompt}]
    if not o.stream:
        r = client.chat.completions.create(
            model=o.model, messages=messages, max_completion_tokens=o.most, temperature=0, **more
        )
        yield r.choices[0].message.content
        yield chat_usage(r.usage)
        return
    with client.chat.completions.create(
        model=o.model, messages=messages, max_completion_tokens=o.most, temperature=0, stream=True,
        stream_options={"include_usage": True}, **more
    ) as chunks:
        for chunk in chunks:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content
            if chunk.usage:
                yield chat_usage(chunk.usage)


def chat_usage(u):
    details = u.prompt_tokens_details
    return u.prompt_tokens, (details and details.cached_tokens) or 0, u.completion_tokens


def responses(client, o):
    more = {}
    if o.formed:
        more["text"] = {
            "format": {"type": "json_schema", "name": "ticket", "strict": True, "schema": schema(o.nonce)}
        }
    ask = {"model": o.model, "input": o.prompt, "max_output_tokens": o.most, "temperature": 0, **more}
    if not o.stream:
        r = client.responses.create(**ask)
        yield r.output_text
        yield responses_usage(r.usage)
        return
    with client.responses.create(stream=True, **ask) as events:
        for event in events:
            if event.type == "response.output_text.delta":
                yield event.delta
            if event.type in ("response.completed", "response.incomplete"):
                yield responses_usage(event.response.usage)


def responses_usage(u):
    return u.input_tokens, u.input_tokens_details.cached_tokens, u.output_tokens


def messages(client, o):
    more = {}
    if o.formed:
        more["output_config"] = {"format": {"type": "json_schema", "schema": schema(o.nonce)}}
    ask = {
        "model": o.model, "max_tokens": o.most, "messages": [{"role": "user", "content": o.prompt}], **more,
    }
    if not o.stream:
        r = client.messages.create(**ask)
        yield "".join(b.text for b in r.content if b.type == "text")
        yield messages_usage(r.usage)
        return
    with client.messages.stream(**ask) as stream:
        yield from stream.text_stream
        yield messages_usage(stream.get_final_message().usage)


def messages_usage(u):
    cached = u.cache_read_input_tokens or 0
    return u.input_tokens + cached + (u.cache_creation_input_tokens or 0), cached, u.output_tokens


def gemini(client, o):
    config = {"max_output_tokens": o.most, "temperature": 0}
    if o.formed:
        config |= {"response_mime_type": "application/json", "response_json_schema": schema(o.nonce)}
    ask = {"model": o.model, "contents": o.prompt, "config": types.GenerateContentConfig(**config)}
    if not o.stream:
        r = client.models.generate_content(**ask)
        yield r.text or ""
        yield gemini_usage(r.usage_metadata)
        return
    usage = None
    for chunk in client.models.generate_content_stream(**ask):
        if chunk.text:
            yield chunk.text
        usage = chunk.usage_metadata or usage
    yield gemini_usage(usage)


def gemini_usage(u):
    return (
        u.prompt_token_count, u.cached_content_token_count or 0,
        (u.candidates_token_count or 0) + (u.thoughts_token_count or 0),
    )


SDKS = {
    "chat": (lambda: openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=300), chat),
    "responses": (lambda: openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0, timeout=300), responses),
    "anthropic": (lambda: anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0, timeout=300), messages),
    "gemini": (
        lambda: genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL, timeout=300_000)),
        gemini,
    ),
}


def answer(client, talk, order):
    """What came of an order. A client that leaves does so after its first piece of text."""
    said = {"nonce": order.nonce, "model": order.model, "stream": order.stream, "formed": order.formed, "text": ""}
    pieces = talk(client, order)
    try:
        for piece in pieces:
            if isinstance(piece, tuple):
                said["input"], said["cached"], said["output"] = piece
                continue
            said["text"] += piece
            if order.leaves:
                said["left"] = True
                break
    except Exception as e:  # whatever it is, it goes into the report
        said["error"] = f"{type(e).__name__}: {e}"
    finally:
        pieces.close()
    return said


def talk_on(name, number, until, lock):
    connect, talk = SDKS[name]
    client, dice, n = connect(), random.Random(f"{name}{number}"), 0
    while time.monotonic() < until:
        n += 1
        order = Order(dice, f"python-{name}-{number}-{n}")
        said = answer(client, talk, order)
        with lock:
            print(json.dumps(said), flush=True)


def main():
    lock, until = threading.Lock(), time.monotonic() + SECONDS
    threads = [
        threading.Thread(target=talk_on, args=(name, number, until, lock)) for name in SDKS for number in range(EACH)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


main()
