"""Features of OpenAI's Agents SDK: one agent, a model class for each API."""

import asyncio
import json

from agents import (
    Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning

from ask import (
    HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL, SYSTEM, TWO, Person,
    call_report, usage_report, weather_json,
)
from failure import failure_report

set_tracing_disabled(True)  # it would be sent to OpenAI

MODELS = {"openai-chat": OpenAIChatCompletionsModel, "openai-responses": OpenAIResponsesModel}
SETTINGS = ModelSettings(max_tokens=MOST, include_usage=True)
THINKING = ModelSettings(
    max_tokens=MOST_THINKING, include_usage=True, reasoning=Reasoning(effort="low", summary="auto"), store=False,
    response_include=["reasoning.encrypted_content"],
)


class Connection:
    """Makes agents on models of one API at one address. The SDK is asynchronous: all of
    a connection happens in one loop."""

    def __init__(self, base_url, key, api):
        self.api = api
        self.loop = asyncio.new_event_loop()
        self.openai = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=20)

    def agent(self, model, settings=SETTINGS, **more):
        made = MODELS[self.api](model=model, openai_client=self.openai)
        return Agent(name="Assistant", model=made, model_settings=settings, **more)

    def whole(self, agent, question):
        return self.loop.run_until_complete(Runner.run(agent, question))

    def streamed(self, agent, question):
        return self.loop.run_until_complete(self.drain(agent, question))

    async def drain(self, agent, question, delta=lambda text: None):
        run = Runner.run_streamed(agent, question)
        async for event in run.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                delta(event.data.delta)
        return run


connect = Connection


def text(client, model):
    return {"text": client.whole(client.agent(model, instructions=SYSTEM), HELLO).final_output, "finish": ""}


def stream(client, model):
    deltas = []
    agent = client.agent(model, instructions=SYSTEM)
    run = client.loop.run_until_complete(client.drain(agent, HELLO, deltas.append))
    return {"deltas": deltas, "text": run.final_output, "finish": ""}


def turns(client, model):
    agent = client.agent(model, instructions=SYSTEM)
    first = client.whole(agent, HELLO)
    second = client.streamed(agent, [*first.to_input_list(), {"role": "user", "content": ONE}])
    return {"texts": [first.final_output, second.final_output]}


def weatherman(client, model, settings=SETTINGS):
    """An agent with a tool, and the cities that the tool is asked for."""
    asked = []

    @function_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return weather_json(city)

    return client.agent(model, settings, tools=[get_weather]), asked


def two_rounds(client, model, question, turn, settings=SETTINGS):
    agent, _ = weatherman(client, model, settings)
    run = turn(agent, question)
    calls = [i.raw_item for i in run.new_items if i.type == "tool_call_item"]
    return {
        "calls": [call_report(c.name, json.loads(c.arguments)) for c in calls],
        "finish": ["" for _ in run.raw_responses],
        "text": run.final_output,
    }


def tools(client, model):
    return two_rounds(client, model, ONE, client.whole)


def parallel(client, model):
    return two_rounds(client, model, TWO, client.streamed)


def sealed(client, model):
    return {
        "whole": two_rounds(client, model, ONE, client.whole, THINKING),
        "stream": two_rounds(client, model, ONE, client.streamed, THINKING),
    }


def runner(client, model):
    agent, asked = weatherman(client, model)
    return {"text": client.whole(agent, ONE).final_output, "asked": asked}


def structured(client, model):
    agent = client.agent(model, instructions=SYSTEM, output_type=Person)
    return {"parsed": client.whole(agent, HELLO).final_output.model_dump()}


def image(client, model):
    content = [
        {"type": "input_text", "text": PICTURE},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"},
    ]
    agent = client.agent(model, instructions=SYSTEM)
    return {"text": client.whole(agent, [{"role": "user", "content": content}]).final_output}


def thoughts(run):
    items = [i.raw_item for i in run.new_items if i.type == "reasoning_item"]
    return {"reasoning": "".join(s.text for i in items for s in i.summary), "text": run.final_output}


def reasoning(client, model):
    agent = client.agent(model, THINKING, instructions=SYSTEM)
    return {"whole": thoughts(client.whole(agent, HELLO)), "stream": thoughts(client.streamed(agent, HELLO))}


def tokens(run):
    u = run.raw_responses[-1].usage
    return usage_report(
        u.input_tokens, u.input_tokens_details.cached_tokens, u.output_tokens,
        u.output_tokens_details.reasoning_tokens,
    )


def usage(client, model):
    agent = client.agent(model, instructions=SYSTEM)
    return {"whole": tokens(client.whole(agent, HELLO)), "stream": tokens(client.streamed(agent, HELLO))}


def error_404(client, model):
    return failure_report(lambda: client.whole(client.agent(model, instructions=SYSTEM), HELLO))


error_unknown = error_429 = error_404


def cut(client, model):
    said, error = [], ""
    agent = client.agent(model, instructions=SYSTEM)
    try:
        client.loop.run_until_complete(client.drain(agent, HELLO, said.append))
    except Exception as e:
        error = type(e).__name__
    return {"text": "".join(said), "error": error}


async def leave(client, agent):
    said = []
    run = Runner.run_streamed(agent, HELLO)
    async for event in run.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            said.append(event.data.delta)
            run.cancel()
    return said[0]


def cancel(client, model):
    agent = client.agent(model, instructions=SYSTEM)
    return {"text": client.loop.run_until_complete(leave(client, agent))}
