"""Features of Pydantic AI: one agent, a model class for each API."""

import asyncio

from anthropic import AsyncAnthropic
from google.genai import Client, types
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

from ask import (
    HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL_BYTES, SYSTEM, TWO, Person,
    call_report, cut_report, usage_report, weather,
)
from failure import failure_report


def openai(base_url, key):
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=20))


def anthropic(base_url, key):
    return AnthropicProvider(
        anthropic_client=AsyncAnthropic(base_url=base_url, api_key=key, max_retries=0, timeout=20)
    )


def google(base_url, key):
    options = types.HttpOptions(base_url=base_url, timeout=20_000)
    return GoogleProvider(client=Client(api_key=key, http_options=options))


# For each API: its provider, its model, the settings that make it think, and what the
# framework would guess from a model's name if it were the vendor's.
APIS = {
    "openai-chat": (openai, OpenAIChatModel, {"openai_reasoning_effort": "low"}, {}),
    "openai-responses": (
        openai, OpenAIResponsesModel, {"openai_reasoning_effort": "low", "openai_reasoning_summary": "auto"},
        {"openai_supports_encrypted_reasoning_content": True},
    ),
    "anthropic": (
        anthropic, AnthropicModel, {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"supports_json_schema_output": True, "supports_inline_system_prompts": True},
    ),
    "gemini": (
        google, GoogleModel, {"google_thinking_config": {"include_thoughts": True, "thinking_budget": 1024}},
        {"supports_inline_system_prompts": True},  # else it writes a preamble of its own
    ),
}


class Connection:
    """Makes agents on models of one API at one address."""

    def __init__(self, base_url, key, api):
        provider, self.model, self.think, self.profile = APIS[api]
        self.provider = provider(base_url, key)

    def agent(self, model, system=SYSTEM, **more):
        return Agent(
            self.model(model, provider=self.provider, profile=self.profile), instructions=system,
            model_settings={"max_tokens": MOST}, retries=0, **more,
        )

    @property
    def thinking(self):
        return {"max_tokens": MOST_THINKING, **self.think}


connect = Connection


def responses(run):
    return [m for m in run.all_messages() if isinstance(m, ModelResponse)]


def whole(agent, question, settings=None):
    run = agent.run_sync(question, model_settings=settings)
    return run.output, run


def streamed(agent, question, settings=None, **more):
    run = agent.run_stream_sync(question, model_settings=settings, **more)
    return run.get_output(), run


def text(client, model):
    output, run = whole(client.agent(model), HELLO)
    return {"text": output, "finish": responses(run)[-1].finish_reason}


def stream(client, model):
    run = client.agent(model).run_stream_sync(HELLO)
    deltas = list(run.stream_text(delta=True, debounce_by=None))
    return {"deltas": deltas, "text": run.response.text, "finish": run.response.finish_reason}


def turns(client, model):
    agent = client.agent(model)
    first, run = whole(agent, HELLO)
    second, _ = streamed(agent, ONE, message_history=run.all_messages())
    return {"texts": [first, second]}


def weatherman(client, model):
    """An agent with a tool, and the cities that the tool is asked for."""
    asked = []
    agent = client.agent(model, system=None)

    @agent.tool_plain
    def get_weather(city: str) -> dict:
        """The weather of a city."""
        asked.append(city)
        return weather(city)

    return agent, asked


def two_rounds(client, model, question, turn, settings=None):
    agent, _ = weatherman(client, model)
    output, run = turn(agent, question, settings)
    calls = [p for m in responses(run) for p in m.parts if isinstance(p, ToolCallPart)]
    return {
        "calls": [call_report(c.tool_name, c.args_as_dict()) for c in calls],
        "finish": [m.finish_reason for m in responses(run)],
        "text": output,
    }


def tools(client, model):
    return two_rounds(client, model, ONE, whole)


def parallel(client, model):
    return two_rounds(client, model, TWO, streamed)


def sealed(client, model):
    return {
        "whole": two_rounds(client, model, ONE, whole, client.thinking),
        "stream": two_rounds(client, model, ONE, streamed, client.thinking),
    }


def runner(client, model):
    agent, asked = weatherman(client, model)
    return {"text": whole(agent, ONE)[0], "asked": asked}


def structured(client, model, form=NativeOutput):
    output, _ = whole(client.agent(model, output_type=form(Person)), HELLO)
    return {"parsed": output.model_dump()}


def structured_tool(client, model):
    return structured(client, model, ToolOutput)


def image(client, model):
    question = [PICTURE, BinaryContent(data=PIXEL_BYTES, media_type="image/png")]
    return {"text": whole(client.agent(model), question)[0]}


def thoughts(output, run):
    thought = [p.content for m in responses(run) for p in m.parts if isinstance(p, ThinkingPart)]
    return {"reasoning": "".join(thought), "text": output}


def reasoning(client, model):
    agent = client.agent(model)
    return {
        "whole": thoughts(*whole(agent, HELLO, client.thinking)),
        "stream": thoughts(*streamed(agent, HELLO, client.thinking)),
    }


def tokens(output, run):
    u = responses(run)[-1].usage
    thought = u.details.get("reasoning_tokens") or u.details.get("thoughts_tokens") or u.details.get("thinking_tokens")
    return usage_report(u.input_tokens, u.cache_read_tokens, u.output_tokens, thought)


def usage(client, model):
    agent = client.agent(model)
    return {"whole": tokens(*whole(agent, HELLO)), "stream": tokens(*streamed(agent, HELLO))}


def error_404(client, model):
    return failure_report(lambda: whole(client.agent(model), HELLO))


error_unknown = error_429 = error_404


def texts(client, model):
    with client.agent(model).run_stream_sync(HELLO) as run:
        yield from run.stream_text(delta=True, debounce_by=None)


def cut(client, model):
    return cut_report(texts(client, model))


async def leave(agent):
    async with agent.run_stream(HELLO) as run:
        async for said in run.stream_text(delta=True, debounce_by=None):
            return said


def cancel(client, model):
    loop = asyncio.get_event_loop()  # the one that the agent's other calls have used
    said = loop.run_until_complete(leave(client.agent(model)))
    loop.run_until_complete(asyncio.sleep(0.05))  # an application's loop would go on
    return {"text": said}


def count_tokens(client, model):
    counting = client.agent(model).model.count_tokens(
        [ModelRequest.user_text_prompt(HELLO)], None, ModelRequestParameters()
    )
    try:
        return {"tokens": asyncio.get_event_loop().run_until_complete(counting).input_tokens}
    except ModelHTTPError as e:
        return {"refused": e.status_code == 501}
