"""Features of Google's SDK."""

from google import genai
from google.genai import errors, types

from ask import (
    CITY, HELLO, MOST, MOST_THINKING, ONE, PICTURE, PIXEL_BYTES, SYSTEM, TWO, WEATHER, Person,
    call_report, cut_report, first_report, problem_report, usage_report, weather,
)

TOOLS = [
    types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name="get_weather", description=WEATHER, parameters_json_schema=CITY
            )
        ]
    )
]
THINK = {
    "most": MOST_THINKING,
    "thinking_config": types.ThinkingConfig(include_thoughts=True, thinking_level="LOW"),
}


def connect(base_url, key):
    return genai.Client(
        api_key=key, http_options=types.HttpOptions(base_url=base_url, timeout=20_000)
    )


def config(most=MOST, system=SYSTEM, **more):
    return types.GenerateContentConfig(max_output_tokens=most, system_instruction=system, **more)


def create(client, model, contents=HELLO, **more):
    return client.models.generate_content(model=model, contents=contents, config=config(**more))


def streamed(client, model, contents=HELLO, **more):
    return client.models.generate_content_stream(
        model=model, contents=contents, config=config(**more)
    )


def text(client, model):
    r = create(client, model)
    return {"text": r.text, "finish": r.candidates[0].finish_reason.value}


def stream(client, model):
    """A chat keeps what was streamed, which is what this SDK has of an accumulator."""
    chat = client.chats.create(model=model, config=config())
    deltas, finish = [], ""
    for chunk in chat.send_message_stream(HELLO):
        if chunk.text:
            deltas.append(chunk.text)
        reason = chunk.candidates[0].finish_reason
        finish = reason.value if reason else finish
    kept = [p.text for c in chat.get_history() if c.role == "model" for p in c.parts if p.text]
    return {"deltas": deltas, "text": "".join(kept), "finish": finish}


def whole_turn(client, model, contents, **more):
    r = create(client, model, contents, **more)
    return r.candidates[0].content.parts, r.candidates[0].finish_reason.value


def streamed_turn(client, model, contents, **more):
    parts, finish = [], ""
    for chunk in streamed(client, model, contents, **more):
        parts += chunk.candidates[0].content.parts or []
        reason = chunk.candidates[0].finish_reason
        finish = reason.value if reason else finish
    return parts, finish


def two_rounds(client, model, question, turn, **more):
    contents = [types.Content(role="user", parts=[types.Part(text=question)])]
    parts, first = turn(client, model, contents, tools=TOOLS, system=None, **more)
    calls = [p.function_call for p in parts if p.function_call]
    contents.append(types.Content(role="model", parts=parts))
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=c.id, name=c.name, response=weather(c.args["city"])
            )
        )
        for c in calls
    ]
    contents.append(types.Content(role="user", parts=results))
    said, second = turn(client, model, contents, tools=TOOLS, system=None, **more)
    return {
        "calls": [call_report(c.name, c.args) for c in calls],
        "finish": [first, second],
        "text": "".join(p.text or "" for p in said),
    }


def tools(client, model):
    return two_rounds(client, model, ONE, whole_turn)


def parallel(client, model):
    return two_rounds(client, model, TWO, streamed_turn)


def sealed(client, model):
    return {
        "whole": two_rounds(client, model, ONE, whole_turn, **THINK),
        "stream": two_rounds(client, model, ONE, streamed_turn, **THINK),
    }


def runner(client, model):
    """Automatic function calling."""
    asked = []

    def get_weather(city: str) -> dict:
        """The weather of a city."""
        asked.append(city)
        return weather(city)

    r = create(client, model, ONE, tools=[get_weather], system=None)
    return {"asked": asked, "text": r.text}


def structured(client, model):
    r = create(client, model, response_mime_type="application/json", response_schema=Person)
    return {"parsed": r.parsed.model_dump()}


def image(client, model):
    contents = [PICTURE, types.Part.from_bytes(data=PIXEL_BYTES, mime_type="image/png")]
    return {"text": create(client, model, contents).text}


def thoughts(parts):
    return {
        "reasoning": "".join(p.text or "" for p in parts if p.thought),
        "text": "".join(p.text or "" for p in parts if not p.thought),
    }


def reasoning(client, model):
    return {
        "whole": thoughts(whole_turn(client, model, HELLO, **THINK)[0]),
        "stream": thoughts(streamed_turn(client, model, HELLO, **THINK)[0]),
    }


def tokens(u):
    thought = u.thoughts_token_count or 0
    return usage_report(
        u.prompt_token_count, u.cached_content_token_count, u.candidates_token_count + thought, thought
    )


def usage(client, model):
    last = None
    whole = create(client, model).usage_metadata
    for chunk in streamed(client, model):
        last = chunk.usage_metadata or last
    return {"whole": tokens(whole), "stream": tokens(last)}


def retry_delay(e):
    details = e.details.get("error", {}).get("details", []) if isinstance(e.details, dict) else []
    return "".join(d.get("retryDelay", "").rstrip("s") for d in details)


def problem(call):
    try:
        call()
    except errors.APIError as e:
        return problem_report(e, e.code, e.message, retry_delay(e))
    return {"error": None}


def error_404(client, model):
    return problem(lambda: create(client, model))


error_unknown = error_429 = error_404


def texts(stream):
    for chunk in stream:
        yield chunk.text or ""


def cut(client, model):
    return cut_report(texts(streamed(client, model)))


def cancel(client, model):
    stream = streamed(client, model)
    return first_report(stream, texts(stream))


def models(client, model):
    found = list(client.models.list())
    typed = all(m.display_name and "generateContent" in m.supported_actions for m in found)
    return {"ids": sorted(m.name.removeprefix("models/") for m in found), "typed": typed}
