"""What a framework raises. It keeps what the server said in the exception of the SDK below it."""

from ask import problem_report


def causes(e):
    while e is not None:
        yield e
        e = e.__cause__ or e.__context__


def first(values):
    return next((v for v in values if v), None)


def status_of(e):
    number = getattr(e, "status_code", None) or getattr(e, "code", None)
    return number if isinstance(number, int) else None


def error_of(e):
    """The error of the answer's body: OpenAI's SDK has taken it out, the others have not."""
    body = getattr(e, "body", None) or getattr(e, "details", None)
    if not isinstance(body, dict):
        return {}
    return body.get("error") or body


def retry_after_of(e):
    headers = getattr(getattr(e, "response", None), "headers", {})
    details = error_of(e).get("details") or []
    delays = [d.get("retryDelay", "").rstrip("s") for d in details if isinstance(d, dict)]
    return headers.get("retry-after") or "".join(delays)


def failure_report(call):
    try:
        call()
    except Exception as e:
        chain = list(causes(e))
        return problem_report(
            e,
            first(status_of(c) for c in chain),
            first(error_of(c).get("message") for c in chain) or str(e),
            first(retry_after_of(c) for c in chain),
        )
    return {"error": None}
