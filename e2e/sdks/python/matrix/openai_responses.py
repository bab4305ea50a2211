"""Features of OpenAI's SDK on Responses."""

import json

from ask import (
    CITY, HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL, SYSTEM, TWO, WEATHER, Person,
    call_report, cut_report, first_report, usage_report, weather_json,
)
from openai_chat import connect, models, problem

TOOLS = [
    {"type": "function", "name": "get_weather", "description": WEATHER, "strict": True, "parameters": CITY}
]
THINK = {"effort": "low", "summary": "auto"}


def create(client, model, input=HELLO, instructions=SYSTEM, most=MOST, **more):
    return client.responses.create(
        model=model, input=input, instructions=instructions, max_output_tokens=most, **more
    )


def final(client, model, input=HELLO, instructions=SYSTEM, most=MOST, **more):
    with client.responses.stream(
        model=model, input=input, instructions=instructions, max_output_tokens=most, **more
    ) as stream:
        return stream.get_final_response()


def text(client, model):
    r = create(client, model)
    return {"text": r.output_text, "finish": r.status}


def stream(client, model):
    deltas = []
    with client.responses.stream(
        model=model, input=HELLO, instructions=SYSTEM, max_output_tokens=MOST
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
        r = stream.get_final_response()
    return {"deltas": deltas, "text": r.output_text, "finish": r.status}


def two_rounds(client, model, question, complete, **more):
    history = [{"role": "user", "content": question}]
    first = complete(client, model, history, instructions=None, tools=TOOLS, **more)
    calls = [item for item in first.output if item.type == "function_call"]
    for item in first.output:
        history.append(item.model_dump(exclude_none=True, exclude={"parsed_arguments"}))
    for call in calls:
        city = json.loads(call.arguments)["city"]
        history.append(
            {"type": "function_call_output", "call_id": call.call_id, "output": weather_json(city)}
        )
    second = complete(client, model, history, instructions=None, tools=TOOLS, **more)
    return {
        "calls": [call_report(c.name, json.loads(c.arguments)) for c in calls],
        "finish": [first.status, second.status],
        "text": second.output_text,
    }


def tools(client, model):
    return two_rounds(client, model, ONE, create)


def parallel(client, model):
    return two_rounds(client, model, TWO, final)


def sealed(client, model):
    more = {"most": MOST_THINKING, "reasoning": THINK, "store": False, "include": ["reasoning.encrypted_content"]}
    return {
        "whole": two_rounds(client, model, ONE, create, **more),
        "stream": two_rounds(client, model, ONE, final, **more),
    }


def runner(client, model):
    from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner

    asked = []

    def execute(arguments):
        asked.append(arguments["city"])
        return weather_json(arguments["city"])

    run = ResponsesToolRunner(functions=[RegisteredFunction(tool=TOOLS[0], execute=execute)])
    r = run.run(client, {"model": model, "input": ONE, "max_output_tokens": MOST})
    return {"asked": asked, "text": r.output_text}


def structured(client, model):
    r = client.responses.parse(
        model=model, input=HELLO, instructions=SYSTEM, max_output_tokens=MOST, text_format=Person
    )
    return {"parsed": r.output_parsed.model_dump()}


def image(client, model):
    content = [
        {"type": "input_text", "text": PICTURE},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"},
    ]
    return {"text": create(client, model, [{"role": "user", "content": content}]).output_text}


def thoughts(r):
    summaries = [item.summary for item in r.output if item.type == "reasoning"]
    return {"reasoning": "".join(s.text for summary in summaries for s in summary), "text": r.output_text}


def reasoning(client, model):
    return {
        "whole": thoughts(create(client, model, most=MOST_THINKING, reasoning=THINK)),
        "stream": thoughts(final(client, model, most=MOST_THINKING, reasoning=THINK)),
    }


def tokens(u):
    return usage_report(
        u.input_tokens,
        u.input_tokens_details.cached_tokens,
        u.output_tokens,
        u.output_tokens_details.reasoning_tokens,
    )


def usage(client, model):
    return {"whole": tokens(create(client, model).usage), "stream": tokens(final(client, model).usage)}


def error_404(client, model):
    return problem(lambda: create(client, model))


error_unknown = error_429 = error_404


def texts(stream):
    for event in stream:
        if event.type == "response.output_text.delta":
            yield event.delta


def cut(client, model):
    return cut_report(texts(create(client, model, stream=True)))


def cancel(client, model):
    stream = create(client, model, stream=True)
    return first_report(stream, texts(stream))
