"""Features of LangChain's chat models: one interface, a package for each vendor."""

from functools import partial

from anthropic import APIStatusError
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

from ask import (
    CITY, HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL, SYSTEM, TWO, WEATHER, Person,
    call_report, cut_report, first_report, usage_report, weather_json,
)
from failure import failure_report

TOOL = {"title": "get_weather", "description": WEATHER, **CITY}
HELLO_MESSAGES = [SystemMessage(SYSTEM), HumanMessage(HELLO)]


def openai(base_url, key, model, most=MOST, **more):
    return ChatOpenAI(
        base_url=base_url, api_key=key, model=model, max_tokens=most, max_retries=0, timeout=20,
        stream_usage=True, **more,
    )


def anthropic(base_url, key, model, most=MOST, **more):
    return ChatAnthropic(
        base_url=base_url, api_key=key, model=model, max_tokens=most, max_retries=0, timeout=20, **more
    )


def google(base_url, key, model, most=MOST, **more):
    return ChatGoogleGenerativeAI(
        base_url=base_url, google_api_key=key, model=model, max_output_tokens=most, max_retries=0,
        timeout=20, **more,
    )


# For each API: what makes a model of it, and what makes one that thinks.
MAKERS = {
    "openai-chat": (openai, {"reasoning_effort": "low"}),
    "openai-responses": (
        partial(openai, use_responses_api=True),
        {"reasoning": {"effort": "low", "summary": "auto"}, "store": False, "include": ["reasoning.encrypted_content"]},
    ),
    "anthropic": (anthropic, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    "gemini": (google, {"include_thoughts": True, "thinking_budget": 1024}),
}


class Connection:
    """Makes models of one API at one address."""

    def __init__(self, base_url, key, api):
        make, self.think = MAKERS[api]
        self.make = partial(make, base_url, key)

    def plain(self, model):
        return self.make(model)

    def thinking(self, model):
        return self.make(model, most=MOST_THINKING, **self.think)


connect = Connection


def finish_of(message):
    said = message.response_metadata
    return said.get("finish_reason") or said.get("stop_reason") or said.get("status")


def whole(chat, messages):
    return chat.invoke(messages)


def streamed(chat, messages):
    """The chunks of a stream, added up as LangChain adds them."""
    all_of_it = None
    for chunk in chat.stream(messages):
        all_of_it = chunk if all_of_it is None else all_of_it + chunk
    return all_of_it


def texts(chat):
    for chunk in chat.stream(HELLO_MESSAGES):
        if chunk.text:
            yield chunk.text


def text(client, model):
    m = client.plain(model).invoke(HELLO_MESSAGES)
    return {"text": m.text, "finish": finish_of(m)}


def stream(client, model):
    deltas, total = [], None
    for chunk in client.plain(model).stream(HELLO_MESSAGES):
        if chunk.text:
            deltas.append(chunk.text)
        total = chunk if total is None else total + chunk
    return {"deltas": deltas, "text": total.text, "finish": finish_of(total)}


def turns(client, model):
    chat = client.plain(model)
    first = whole(chat, HELLO_MESSAGES)
    second = streamed(chat, [*HELLO_MESSAGES, first, HumanMessage(ONE)])
    return {"texts": [first.text, second.text]}


def two_rounds(chat, question, turn):
    chat = chat.bind_tools([TOOL])
    messages = [HumanMessage(question)]
    first = turn(chat, messages)
    messages.append(first)
    for call in first.tool_calls:
        messages.append(ToolMessage(weather_json(call["args"]["city"]), tool_call_id=call["id"], name=call["name"]))
    second = turn(chat, messages)
    return {
        "calls": [call_report(c["name"], c["args"]) for c in first.tool_calls],
        "finish": [finish_of(first), finish_of(second)],
        "text": second.text,
    }


def tools(client, model):
    return two_rounds(client.plain(model), ONE, whole)


def parallel(client, model):
    return two_rounds(client.plain(model), TWO, streamed)


def sealed(client, model):
    return {
        "whole": two_rounds(client.thinking(model), ONE, whole),
        "stream": two_rounds(client.thinking(model), ONE, streamed),
    }


def runner(client, model):
    """The agent of the package langchain."""
    asked = []

    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return weather_json(city)

    agent = create_agent(client.plain(model), tools=[get_weather])
    said = agent.invoke({"messages": [HumanMessage(ONE)]})
    return {"asked": asked, "text": said["messages"][-1].text}


def structured(client, model, method="json_schema"):
    chat = client.plain(model).with_structured_output(Person, method=method)
    return {"parsed": chat.invoke(HELLO_MESSAGES).model_dump()}


def structured_tool(client, model):
    return structured(client, model, "function_calling")


def image(client, model):
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    content = [{"type": "text", "text": PICTURE}, picture]
    return {"text": client.plain(model).invoke([SystemMessage(SYSTEM), HumanMessage(content)]).text}


def thoughts(message):
    thought = [b["reasoning"] for b in message.content_blocks if b["type"] == "reasoning" and "reasoning" in b]
    return {"reasoning": "".join(thought), "text": message.text}


def reasoning(client, model):
    chat = client.thinking(model)
    return {"whole": thoughts(whole(chat, HELLO_MESSAGES)), "stream": thoughts(streamed(chat, HELLO_MESSAGES))}


def tokens(message):
    u = message.usage_metadata
    return usage_report(
        u["input_tokens"], u["input_token_details"].get("cache_read"), u["output_tokens"],
        u.get("output_token_details", {}).get("reasoning"),
    )


def usage(client, model):
    chat = client.plain(model)
    return {"whole": tokens(whole(chat, HELLO_MESSAGES)), "stream": tokens(streamed(chat, HELLO_MESSAGES))}


def error_404(client, model):
    return failure_report(lambda: client.plain(model).invoke(HELLO_MESSAGES))


error_unknown = error_429 = error_404


def cut(client, model):
    return cut_report(texts(client.plain(model)))


def cancel(client, model):
    stream = texts(client.plain(model))
    return first_report(stream, stream)


def count_tokens(client, model):
    try:
        return {"tokens": client.plain(model).get_num_tokens_from_messages(HELLO_MESSAGES)}
    except APIStatusError as e:
        return {"refused": e.status_code == 501}
