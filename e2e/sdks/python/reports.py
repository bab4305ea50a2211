"""What the scenarios report of what the SDK gave them."""


def text(value):
    """A missing value and an empty one are the same to the other SDKs."""
    return value or ""


def usage_report(u):
    return {
        "prompt": u.prompt_tokens,
        "completion": u.completion_tokens,
        "total": u.total_tokens,
        "cached": u.prompt_tokens_details.cached_tokens,
        "reasoning": u.completion_tokens_details.reasoning_tokens,
    }


def chat_report(c):
    return {
        "id": c.id,
        "model": c.model,
        "content": c.choices[0].message.content,
        "finish": c.choices[0].finish_reason,
        "usage": usage_report(c.usage),
        "request_id": c._request_id,
    }


def choices_report(c):
    return {
        "choices": [
            {"index": x.index, "content": x.message.content, "finish": x.finish_reason}
            for x in c.choices
        ]
    }


def status_report(e):
    return {
        "error": {
            "class": type(e).__name__,
            "status": e.status_code,
            "type": text(e.type),
            "param": text(e.param),
            "code": text(e.code),
            "message": e.body.get("message") if isinstance(e.body, dict) else str(e),
            "retry_after": e.response.headers.get("retry-after", ""),
            "request_id": text(e.request_id),
        }
    }


def failure(e):
    return {"class": type(e).__name__, "message": str(e)}
