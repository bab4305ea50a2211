"""What every SDK's user asks, and what is reported in the same words for all."""

import base64
import json

from pydantic import BaseModel

SYSTEM = "Be brief."
HELLO = "Say hello."
ONE = "How warm is it in Paris?"
TWO = "How warm is it in Paris and in Köln?"
PICTURE = "What is this?"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJgggAA++//+/A="
PIXEL_BYTES = base64.b64decode(PIXEL)
MOST = 64
MOST_THINKING = 4096

WEATHER = "The weather of a city."
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


class Person(BaseModel):
    name: str
    age: int
    tags: list[str]


def weather(city):
    return {"degrees": 21 if city == "Paris" else 22}


def weather_json(city):
    return json.dumps(weather(city))


def call_report(name, arguments):
    return {"name": name, "city": arguments.get("city")}


def usage_report(input_tokens, cached, output_tokens, reasoning):
    return {"input": input_tokens, "cached": cached, "output": output_tokens, "reasoning": reasoning or 0}


def problem_report(e, status, message, retry_after):
    return {
        "error": {
            "class": type(e).__name__,
            "status": status,
            "message": message,
            "retry_after": retry_after or "",
        }
    }


def cut_report(texts):
    """The text of a stream up to where it raises, and the class of what it raised."""
    said, error = "", ""
    try:
        for text in texts:
            said += text
    except Exception as e:
        error = type(e).__name__
    return {"text": said, "error": error}


def first_report(stream, texts):
    """The first text of a stream that is left then."""
    said = ""
    for said in texts:
        if said:
            break
    stream.close()
    return {"text": said}
