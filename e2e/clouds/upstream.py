"""Strict servers that play the clouds, on loopback.

Each request is checked with the vendor's own library: bodies of InvokeModel, rawPredict and
Chat Completions with the types of Anthropic's and OpenAI's SDKs, those of Vertex with Google's.
Converse is played and checked by ../converse/check.py.
"""

import base64
import http.server
import json
import os
import sys
import urllib.parse

import pydantic
from anthropic.types import message_count_tokens_params, message_create_params
from google.genai import types as google_types
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "converse"))
import check as converse

PNG = converse.PNG
TEXT = "Héllo 😀"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
SUBSCRIPTION = "/subscriptions/0f1e2d3c-aaaa-bbbb-cccc-1234567890ab/resourceGroups/rg-7/providers/Microsoft.CognitiveServices/accounts/my-resource-7"
PRIVATE = ["123456789012", "inference-profile", "my-project-77", "998877665544", "my-resource-7", "0f1e2d3c-aaaa", "rg-7", "assumed-role", "i-0abc123def456789a", "svc-7@"]
AWS_WORDS = f"User: arn:aws:sts::123456789012:assumed-role/gateway/i-0abc123def456789a is limited on resource {ARN} of account 123456789012"
GOOGLE_WORDS = ("Quota exceeded for aiplatform.googleapis.com/generate_content with base model: m of 'projects/my-project-77/locations/us-east5' "
                "(consumer project_number:998877665544, svc-7@my-project-77.iam.gserviceaccount.com)")
AZURE_WORDS = f"Requests have exceeded the token rate limit of {SUBSCRIPTION} at https://my-resource-7.openai.azure.com/openai."
faults, requests = [], []


def strict(typed):
    return pydantic.TypeAdapter(pydantic.with_config(pydantic.ConfigDict(extra="forbid"))(typed))


MESSAGES = strict(message_create_params.MessageCreateParamsNonStreaming)
COUNT = strict(message_count_tokens_params.MessageCountTokensParams)
CHAT = strict(completion_create_params.CompletionCreateParamsNonStreaming)
RESPONSES = strict(response_create_params.ResponseCreateParamsNonStreaming)


def exhaust(value):
    """Reads lists that the adapter checks only as they are read."""
    if isinstance(value, dict):
        for v in value.values():
            exhaust(v)
    elif hasattr(value, "__next__") or isinstance(value, (list, tuple)):
        for v in value:
            exhaust(v)


def fault(text):
    faults.append(text)
    return text


def anthropic_message():
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
            "content": [{"type": "text", "text": TEXT}, {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}],
            "usage": {"input_tokens": 25, "output_tokens": 9}}


def anthropic_events():
    start = {**anthropic_message(), "content": [], "stop_reason": None}
    return [("message_start", {"message": start}), ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Héllo "}}), ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "😀"}}),
            ("content_block_stop", {"index": 0}), ("content_block_start", {"index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}}),
            ("content_block_delta", {"index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\": "}}), ("content_block_delta", {"index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
            ("content_block_stop", {"index": 1}), ("message_delta", {"delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 9}}), ("message_stop", {})]


class Clouds(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        _, cloud, rest = self.path.split("/", 2)
        self.body = json.loads(raw)
        self.text = json.dumps(self.body, ensure_ascii=False)
        requests.append((self.path, self.body))
        try:
            getattr(self, cloud)("/" + rest)
        except Exception as e:  # a request that the vendor's library does not accept
            fault(f"{self.path}: {type(e).__name__} {str(e)[:600]}: {self.text[:600]}")
            self.send(500, {"message": "the request is not valid"})

    def need(self, header, value):
        if self.headers[header] != value:
            raise ValueError(f"{header}: {self.headers[header]}")

    # Amazon Bedrock, InvokeModel.
    def bedrock(self, path):
        self.need("Authorization", "Bearer bedrock-key")
        _, kind, model, verb = path.split("/")
        if kind != "model" or urllib.parse.unquote(model) not in ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", ARN, "anthropic.claude-sonnet-4-5-20250929-v1:0"):
            raise ValueError("a path of no model")
        body = self.body
        if verb == "count-tokens":
            body = json.loads(base64.b64decode(body["input"]["invokeModel"]["body"], validate=True))
        if body.pop("anthropic_version") != "bedrock-2023-05-31" or "model" in body or "stream" in body:
            raise ValueError("not a body of InvokeModel")
        body.pop("anthropic_beta", None)
        exhaust(MESSAGES.validate_python({"model": "m", **body}))
        if verb == "count-tokens":
            return self.send(200, {"inputTokens": 42})
        if "SLOW DOWN" in self.text:
            return self.send(429, {"message": AWS_WORDS}, {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/"})
        if "NO QUOTA" in self.text:
            return self.send(400, {"message": AWS_WORDS}, {"x-amzn-ErrorType": "ServiceQuotaExceededException"})
        if verb == "invoke":
            return self.send(200, anthropic_message())
        if verb != "invoke-with-response-stream":
            raise ValueError(verb)
        frames = [("chunk", {"bytes": base64.b64encode(json.dumps({"type": name, **data}).encode()).decode(), "p": "abc"}) for name, data in anthropic_events()]
        if "BREAK" in self.text:
            frames = frames[:4] + [("throttlingException", {"message": AWS_WORDS})]
        self.stream("application/vnd.amazon.eventstream", b"".join(converse.frame(*f) for f in frames))

    # Vertex AI: Anthropic's and Google's models.
    def vertex(self, path):
        self.need("Authorization", "Bearer vertex-key")
        head, _, last = path.rpartition("/")
        model, _, verb = last.partition(":")
        if head == "/v1/projects/my-project-77/locations/us-east5/publishers/anthropic/models":
            return self.claude(model, verb)
        verb, _, query = verb.partition("?")
        if head not in ("/v1beta1/projects/my-project-77/locations/us-east5/publishers/google/models", "/v1/projects/my-project-77/locations/us-east5/publishers/google/models") or model != "gemini-3-pro":
            raise ValueError("a path of no model")
        if verb == "countTokens":
            return self.send(200, {"totalTokens": 42})
        for content in self.body["contents"]:
            google_types.Content.model_validate(content)
        google_types.GenerationConfig.model_validate(self.body.get("generationConfig", {}))
        [google_types.Tool.model_validate(t) for t in self.body.get("tools", [])]
        if unknown := set(self.body) - {"contents", "generationConfig", "tools", "toolConfig", "systemInstruction", "safetySettings"}:
            raise ValueError(f"members {unknown}")
        error = {"error": {"code": 429, "message": GOOGLE_WORDS, "status": "RESOURCE_EXHAUSTED",
                           "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "metadata": {"consumer": "projects/998877665544"}},
                                       {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}}
        if "SLOW DOWN" in self.text:
            return self.send(429, [error] if verb.startswith("stream") else error)
        whole = {"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": TEXT}, {"functionCall": {"name": "look", "args": {"a": 1}}}]}}],
                 "usageMetadata": {"promptTokenCount": 25, "candidatesTokenCount": 9, "totalTokenCount": 34}, "modelVersion": "m", "responseId": "r"}
        if verb == "generateContent":
            return self.send(200, whole)
        if (verb, query) != ("streamGenerateContent", "alt=sse"):
            raise ValueError("neither a whole response nor a stream")
        first = {**whole, "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Héllo "}]}}]}
        second = {**whole, "candidates": [{**whole["candidates"][0], "content": {"role": "model", "parts": [{"text": "😀"}, whole["candidates"][0]["content"]["parts"][1]]}}]}
        parts = [first, error] if "BREAK" in self.text else [first, second]
        self.stream("text/event-stream", "".join(f"data: {json.dumps(p)}\r\n\r\n" for p in parts).encode())

    def claude(self, model, verb):
        body = self.body
        if body.pop("anthropic_version") not in ("vertex-2023-10-16", "2026-10-21"):
            raise ValueError("not a body of rawPredict")
        body.pop("anthropic_beta", None)
        if model == "count-tokens":
            exhaust(COUNT.validate_python(body))
            return self.send(200, {"input_tokens": 42})
        if model != "claude-sonnet-4-5@20250929" or "model" in body:
            raise ValueError("a path of no model")
        stream = body.pop("stream", None)
        exhaust(MESSAGES.validate_python({"model": "m", **body}))
        if "SLOW DOWN" in self.text:
            return self.send(429, [{"error": {"code": 429, "message": GOOGLE_WORDS, "status": "RESOURCE_EXHAUSTED"}}], {"Retry-After": "7"})
        if verb == "rawPredict" and not stream:
            return self.send(200, anthropic_message())
        if verb != "streamRawPredict" or not stream:
            raise ValueError("neither a whole response nor a stream")
        events = anthropic_events()
        if "BREAK" in self.text:
            events = events[:4] + [("error", {"error": {"type": "overloaded_error", "message": GOOGLE_WORDS}})]
        self.stream("text/event-stream", "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events).encode())

    # Azure OpenAI: a deployment's URL.
    def azure(self, path):
        self.need("api-key", "azure-key")
        if path != "/openai/deployments/gpt-6-luna/chat/completions?api-version=2025-04-01-preview":
            raise ValueError("not the deployment's path")
        words = {"error": {"code": "429", "message": AZURE_WORDS}}
        self.chat(words, {"retry-after": "8", "retry-after-ms": "7300", "x-ms-region": "East US", "azureml-model-session": "d-7", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7"})

    # Azure OpenAI and Bedrock: OpenAI's own paths.
    def azurev1(self, path):
        self.need("api-key", "azure-key")
        if path != "/openai/v1/responses":
            raise ValueError("not the path of Responses")
        stream = self.body.pop("stream", False)
        for i, item in enumerate(self.body["input"] if isinstance(self.body["input"], list) else []):
            if item.get("role") == "assistant":  # the SDK's types want what the API does not
                self.body["input"][i] = {"id": "msg_1", "status": "completed", **item, "content": [{"annotations": [], **c} for c in item["content"]]}
        exhaust(RESPONSES.validate_python(self.body))
        if "SLOW DOWN" in self.text:
            return self.send(429, {"error": {"code": "too_many_requests", "message": AZURE_WORDS}}, {"retry-after-ms": "7300"})
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": TEXT, "annotations": []}]}
        call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"a\": 1}", "status": "completed"}
        whole = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [message, call], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
                 "usage": {"input_tokens": 25, "output_tokens": 9, "total_tokens": 34, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}
        if not stream:
            return self.send(200, whole)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        events = [("response.created", {"response": begun}), ("response.output_item.added", {"output_index": 0, "item": {**message, "status": "in_progress", "content": []}}),
                  ("response.content_part.added", {**place, "part": {"type": "output_text", "text": "", "annotations": []}}), ("response.output_text.delta", {**place, "delta": "Héllo ", "logprobs": []}),
                  ("response.output_text.delta", {**place, "delta": "😀", "logprobs": []}), ("response.output_text.done", {**place, "text": TEXT, "logprobs": []}),
                  ("response.content_part.done", {**place, "part": message["content"][0]}), ("response.output_item.done", {"output_index": 0, "item": message}),
                  ("response.output_item.added", {"output_index": 1, "item": {**call, "status": "in_progress", "arguments": ""}}),
                  ("response.function_call_arguments.delta", {"item_id": "fc_1", "output_index": 1, "delta": "{\"a\": 1}"}),
                  ("response.function_call_arguments.done", {"item_id": "fc_1", "output_index": 1, "name": "look", "arguments": "{\"a\": 1}"}),
                  ("response.output_item.done", {"output_index": 1, "item": call}), ("response.completed", {"response": whole})]
        if "BREAK" in self.text:
            events = events[:4] + [("response.failed", {"response": {**begun, "status": "failed", "error": {"code": "rate_limit_exceeded", "message": AZURE_WORDS}}})]
        self.stream("text/event-stream", "".join(f"event: {name}\ndata: {json.dumps({'type': name, 'sequence_number': i, **data})}\n\n" for i, (name, data) in enumerate(events)).encode())

    def bedrockai(self, path):
        self.need("Authorization", "Bearer bedrock-key")
        if path != "/openai/v1/chat/completions":
            raise ValueError("not the path of Chat Completions")
        self.chat({"error": {"message": AWS_WORDS, "type": "rate_limit_error", "code": None, "param": None}}, {"x-amzn-ErrorType": "ThrottlingException"})

    def chat(self, error, headers):
        stream = self.body.pop("stream", False)
        exhaust(CHAT.validate_python(self.body))
        if "SLOW DOWN" in self.text:
            return self.send(429, error, headers)
        call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"a\": 1}"}}
        filters = {"hate": {"filtered": False, "severity": "safe"}}
        usage = {"prompt_tokens": 25, "completion_tokens": 9, "total_tokens": 34}
        base = {"id": "c", "created": 1, "model": "m"}
        if not stream:
            return self.send(200, {**base, "object": "chat.completion", "usage": usage, "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filters}],
                                   "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": None, "content_filter_results": filters,
                                                "message": {"role": "assistant", "content": TEXT, "refusal": None, "tool_calls": [call]}}]})
        deltas = [{"role": "assistant", "content": "Héllo "}, {"content": "😀"}, {"tool_calls": [{"index": 0, **call}]}]
        chunks = [{"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filters}]}]
        chunks += [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}, {"choices": [], "usage": usage}]
        lines = [{**base, "object": "chat.completion.chunk", **c} for c in chunks]
        data = "".join(f"data: {json.dumps(c)}\n\n" for c in lines) + "data: [DONE]\n\n"
        if "BREAK" in self.text:
            data = "".join(f"data: {json.dumps(c)}\n\n" for c in lines[:3] + [error])
        self.stream("text/event-stream", data.encode())

    def send(self, status, value, headers=None):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, v in {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, v)
        self.end_headers()
        self.wfile.write(data)

    def stream(self, media, data):
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, *_):
        pass


class Converse(converse.Upstream):
    """The Converse upstream with an error that names the operator's resources."""

    def respond(self, status, value, error=None):
        text = json.dumps(requests_of_converse()[-1])
        if "SLOW DOWN" in text:
            return super().respond(429, {"message": AWS_WORDS}, "ThrottlingException")
        return super().respond(status, value, error)


def requests_of_converse():
    return converse.requests
