"""Features of AWS's SDK with the Converse API."""

import json
import os

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from ask import (
    CITY, HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL_BYTES, SYSTEM, TWO, WEATHER, Person,
    call_report, cut_report, first_report, problem_report, usage_report, weather,
)

TOOLS = {"tools": [{"toolSpec": {"name": "get_weather", "description": WEATHER, "inputSchema": {"json": CITY}}}]}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def connect(base_url, key):
    os.environ["AWS_BEARER_TOKEN_BEDROCK"] = key
    config = Config(retries={"total_max_attempts": 1}, read_timeout=20)
    return boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=base_url, config=config)


def said_by_user(*content):
    return [{"role": "user", "content": list(content)}]


def request(model, messages=None, most=MOST, system=SYSTEM, **more):
    more["inferenceConfig"] = {"maxTokens": most}
    if system:
        more["system"] = [{"text": system}]
    return {"modelId": model, "messages": messages or said_by_user({"text": HELLO}), **more}


def create(client, model, *args, **more):
    r = client.converse(**request(model, *args, **more))
    return r["output"]["message"], r["stopReason"], r["usage"]


def events(client, model, *args, **more):
    return client.converse_stream(**request(model, *args, **more))["stream"]


def add_delta(block, delta):
    for name, value in delta.items():
        if name == "text":
            block["text"] = block.get("text", "") + value
        elif name == "toolUse":
            block["toolUse"]["input"] += value["input"]
        elif name == "reasoningContent":
            of = block.setdefault(name, {"reasoningText": {"text": ""}})["reasoningText"]
            of["text"] += value.get("text", "")
            if "signature" in value:
                of["signature"] = value["signature"]


def final(client, model, *args, **more):
    """A stream as a message. The SDK has no helper for it."""
    blocks, finish, usage = {}, "", {}
    for event in events(client, model, *args, **more):
        for name, e in event.items():
            if name == "contentBlockStart":
                blocks[e["contentBlockIndex"]] = {"toolUse": {**e["start"]["toolUse"], "input": ""}}
            elif name == "contentBlockDelta":
                add_delta(blocks.setdefault(e["contentBlockIndex"], {}), e["delta"])
            elif name == "messageStop":
                finish = e["stopReason"]
            elif name == "metadata":
                usage = e["usage"]
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return {"role": "assistant", "content": [blocks[i] for i in sorted(blocks)]}, finish, usage


def text_of(message):
    return "".join(b.get("text", "") for b in message["content"])


def text(client, model):
    message, finish, _ = create(client, model)
    return {"text": text_of(message), "finish": finish}


def stream(client, model):
    deltas, finish = [], ""
    for event in events(client, model):
        deltas += texts([event])
        finish = event.get("messageStop", {}).get("stopReason", finish)
    return {"deltas": deltas, "text": "".join(deltas), "finish": finish}


def two_rounds(client, model, question, complete, **more):
    messages = said_by_user({"text": question})
    more.update(toolConfig=TOOLS, system="")
    first, finish, _ = complete(client, model, messages, **more)
    calls = [b["toolUse"] for b in first["content"] if "toolUse" in b]
    messages.append(first)
    messages += said_by_user(
        *({"toolResult": {"toolUseId": c["toolUseId"], "content": [{"json": weather(c["input"]["city"])}]}} for c in calls)
    )
    second, finish_second, _ = complete(client, model, messages, **more)
    return {
        "calls": [call_report(c["name"], c["input"]) for c in calls],
        "finish": [finish, finish_second],
        "text": text_of(second),
    }


def tools(client, model):
    return two_rounds(client, model, ONE, create)


def parallel(client, model):
    return two_rounds(client, model, TWO, final)


def sealed(client, model):
    more = {"most": MOST_THINKING, "additionalModelRequestFields": THINK}
    return {
        "whole": two_rounds(client, model, ONE, create, **more),
        "stream": two_rounds(client, model, ONE, final, **more),
    }


def structured(client, model):
    schema = {**Person.model_json_schema(), "additionalProperties": False}
    form = {"type": "json_schema", "structure": {"jsonSchema": {"name": "person", "schema": json.dumps(schema)}}}
    message, _, _ = create(client, model, outputConfig={"textFormat": form})
    return {"parsed": Person.model_validate_json(text_of(message)).model_dump()}


def image(client, model):
    picture = {"image": {"format": "png", "source": {"bytes": PIXEL_BYTES}}}
    return {"text": text_of(create(client, model, said_by_user({"text": PICTURE}, picture))[0])}


def thoughts(message):
    found = [b["reasoningContent"]["reasoningText"]["text"] for b in message["content"] if "reasoningContent" in b]
    return {"reasoning": "".join(found), "text": text_of(message)}


def reasoning(client, model):
    more = {"most": MOST_THINKING, "additionalModelRequestFields": THINK}
    return {
        "whole": thoughts(create(client, model, **more)[0]),
        "stream": thoughts(final(client, model, **more)[0]),
    }


def tokens(u):
    """The API does not count what was thought."""
    cached = u.get("cacheReadInputTokens", 0)
    return usage_report(u["inputTokens"] + cached + u.get("cacheWriteInputTokens", 0), cached, u["outputTokens"], 0)


def usage(client, model):
    return {"whole": tokens(create(client, model)[2]), "stream": tokens(final(client, model)[2])}


def problem(call):
    try:
        call()
    except ClientError as e:
        meta = e.response["ResponseMetadata"]
        retry_after = meta["HTTPHeaders"].get("retry-after")
        return problem_report(e, meta["HTTPStatusCode"], e.response["Error"]["Message"], retry_after)
    return {"error": None}


def error_404(client, model):
    return problem(lambda: create(client, model))


error_unknown = error_429 = error_404


def texts(stream):
    for event in stream:
        piece = event.get("contentBlockDelta", {}).get("delta", {}).get("text")
        if piece:
            yield piece


def cut(client, model):
    return cut_report(texts(events(client, model)))


def cancel(client, model):
    stream = events(client, model)
    return first_report(stream, texts(stream))


def count_tokens(client, model):
    counted = {k: v for k, v in request(model).items() if k in ("messages", "system")}
    try:
        return {"tokens": client.count_tokens(modelId=model, input={"converse": counted})["inputTokens"]}
    except ClientError as e:
        return {"refused": e.response["ResponseMetadata"]["HTTPStatusCode"] == 501}
