"""Checks the gateway's Converse with boto3, on loopback.

The upstream of this script validates every request with botocore's own model of the service,
and sends responses and frames. The clients are boto3 and plain requests of the other dialects.

    python -m venv VENV && VENV/bin/pip install boto3
    VENV/bin/python e2e/converse/check.py bin/isogloss
"""

import base64
import binascii
import http.server
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import botocore.config
import botocore.exceptions
import botocore.loaders
import botocore.model
import botocore.session
import botocore.validate

MODEL = botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2"))
REQUEST = MODEL.operation_model("Converse").input_shape
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
faults, requests = [], []

WHOLE = {
    "output": {"message": {"role": "assistant", "content": [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
        {"text": "Héllo 😀"},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"a": 1}}}]}},
    "stopReason": "tool_use",
    "usage": {"inputTokens": 25, "outputTokens": 9, "totalTokens": 109, "cacheReadInputTokens": 75, "cacheWriteInputTokens": 0},
    "metrics": {"latencyMs": 12}}
EVENTS = [
    ("messageStart", {"role": "assistant", "p": "abc"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln"}}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Héllo "}, "p": "abcdef"}),
    ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "😀"}}),
    ("contentBlockStop", {"contentBlockIndex": 1}),
    ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "look"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": "{\"a\": "}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": "1}"}}}),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": WHOLE["usage"], "metrics": {"latencyMs": 12}}),
]


def frame(name, payload):
    kind = "exception" if name.endswith("Exception") else "event"
    headers = b""
    for key, value in ((f":{kind}-type", name), (":content-type", "application/json"), (":message-type", kind)):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + headers + body
    return message + struct.pack(">I", binascii.crc32(message))


def decoded(shape, value):
    """The parameters as boto3 takes them: blobs are bytes, documents stay."""
    if shape.type_name == "structure":
        if shape.is_document_type:
            return value
        return {k: decoded(shape.members[k], v) if k in shape.members else v for k, v in value.items()}
    if shape.type_name == "list":
        return [decoded(shape.member, v) for v in value]
    if shape.type_name == "blob":
        return base64.b64decode(value, validate=True)
    return value


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, kind, model, verb = self.path.split("/")
        model = urllib.parse.unquote(model)
        report = botocore.validate.ParamValidator().validate({"modelId": model, **decoded(REQUEST, body)}, REQUEST)
        if report.has_errors() or kind != "model" or self.headers["Authorization"] != "Bearer bedrock-key":
            faults.append(f"{self.path} {self.headers['Authorization']}: {report.generate_report()}: {json.dumps(body)}")
        requests.append((self.path, body))
        text = json.dumps(body)
        if "TOO LONG" in text:
            return self.respond(400, {"message": "Input is too long."}, "ValidationException")
        if verb == "converse":
            return self.respond(200, WHOLE)
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.amazon.eventstream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, payload in EVENTS[:6] + [("throttlingException", {"message": "slow down"})] if "BREAK" in text else EVENTS:
            self.wfile.write(frame(name, payload))
        self.close_connection = True

    def respond(self, status, value, error=None):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if error:
            self.send_header("x-amzn-ErrorType", error + ":http://internal.amazon.com/")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def expect(what, got, want):
    if got != want:
        faults.append(f"{what}: {got!r}, want {want!r}")


def boto_checks(port, cert):
    os.environ.update(AWS_BEARER_TOKEN_BEDROCK="client-key", AWS_EC2_METADATA_DISABLED="true")
    client = botocore.session.get_session().create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=f"https://127.0.0.1:{port}", verify=cert,
                                                          config=botocore.config.Config(retries={"max_attempts": 1}))
    tools = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}, {"cachePoint": {"type": "default"}}], "toolChoice": {"auto": {}}}
    ask = dict(system=[{"text": "Be brief."}, {"cachePoint": {"type": "default"}}], toolConfig=tools, inferenceConfig={"maxTokens": 100, "temperature": 0.5},
               messages=[{"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}}]}])
    for model in ("nova", "via-chat"):
        got = client.converse(modelId=model, **ask)
        texts = [b["text"] for b in got["output"]["message"]["content"] if "text" in b]
        expect(f"boto3 on {model}", (texts, got["stopReason"], got["usage"]["outputTokens"]), (["Héllo 😀"], "tool_use", 9))
        answer = got["output"]["message"]
        result = {"toolResult": {"toolUseId": answer["content"][-1]["toolUse"]["toolUseId"], "content": [{"json": {"b": 1}}], "status": "success"}}
        client.converse(modelId=model, **{**ask, "messages": ask["messages"] + [answer, {"role": "user", "content": [result]}]})
        text, args, names, stop, usage = "", "", [], None, None
        for event in client.converse_stream(modelId=model, **ask)["stream"]:
            names.append(next(iter(event)))
            delta = event.get("contentBlockDelta", {}).get("delta", {})
            text, args = text + delta.get("text", ""), args + delta.get("toolUse", {}).get("input", "")
            stop, usage = event.get("messageStop", {}).get("stopReason", stop), event.get("metadata", {}).get("usage", usage)
        expect(f"boto3 stream on {model}", (text, json.loads(args), stop, usage["outputTokens"], names[0], names[-1]), ("Héllo 😀", {"a": 1}, "tool_use", 9, "messageStart", "metadata"))
    for model in ("nova", "via-chat"):
        try:
            client.converse(modelId=model, messages=[{"role": "user", "content": [{"text": "TOO LONG"}]}])
            faults.append(f"{model}: no error")
        except botocore.exceptions.ClientError as e:
            expect(f"error on {model}", (e.response["Error"]["Code"], "Input is too long." in e.response["Error"]["Message"]), ("ValidationException", True))
    try:
        for _ in client.converse_stream(modelId="nova", messages=[{"role": "user", "content": [{"text": "BREAK"}]}])["stream"]:
            pass
        faults.append("no error in the stream")
    except botocore.exceptions.EventStreamError as e:
        expect("error in a stream", e.response["Error"]["Code"], "throttlingException")
    try:
        client.converse(modelId="no/such:model", messages=[{"role": "user", "content": [{"text": "hi"}]}])
        faults.append("no error for an unknown model")
    except botocore.exceptions.ClientError as e:
        expect("an unknown model", e.response["Error"]["Code"], "ResourceNotFoundException")


def other_dialects(port, context):
    image = f"data:image/png;base64,{PNG}"
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    bodies = {
        "/v1/chat/completions": {"model": "nova", "max_completion_tokens": 100, "temperature": 1.5, "top_p": 0.9, "stop": ["END"], "tool_choice": "required", "user": "u", "metadata": {"team": "a"},
                                 "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}, "reasoning_effort": "high",
                                 "tools": [{"type": "function", "function": {"name": "a.dotted/name", "description": "d", "parameters": schema}}, {"type": "custom", "custom": {"name": "shell"}}],
                                 "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": image}},
                                              {"type": "file", "file": {"filename": "a_b.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}]},
                                              {"role": "assistant", "content": "", "tool_calls": [{"id": "call/odd id", "type": "function", "function": {"name": "a.dotted/name", "arguments": "{}"}}]},
                                              {"role": "tool", "tool_call_id": "call/odd id", "content": ""}, {"role": "user", "content": " "}, {"role": "user", "content": "more"}]},
        "/v1/responses": {"model": "nova", "max_output_tokens": 100, "instructions": "s", "store": False, "service_tier": "flex",
                          "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": image}]}, {"role": "developer", "content": "d"}]},
        "/v1/messages": {"model": "nova", "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2048}, "top_k": 5, "metadata": {"user_id": "u"},
                         "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
                         "messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]},
                                      {"role": "assistant", "content": [{"type": "text", "text": "so"}]}, {"role": "user", "content": "go on"}]},
        "/v1beta/models/nova:generateContent": {"contents": [{"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]}], "generationConfig": {"maxOutputTokens": 100}},
    }
    for path, body in bodies.items():
        for model in ("nova", "claude"):
            for stream in (False, True):
                body = {**body, **({"model": model} if "model" in body else {}), **({"stream": stream} if "model" in body else {})}
                to = path.replace("nova", model)
                if stream and "model" not in body:
                    to = to.replace("generateContent", "streamGenerateContent") + "?alt=sse"
                req = urllib.request.Request(f"https://127.0.0.1:{port}{to}", json.dumps(body).encode(), {"Content-Type": "application/json", "Authorization": "Bearer client-key"})
                try:
                    with urllib.request.urlopen(req, context=context) as resp:
                        text = resp.read().decode()
                    if "llo" not in text:
                        faults.append(f"{to}: {text[:300]}")
                except urllib.error.HTTPError as e:
                    faults.append(f"{to}: {e.code} {e.read().decode()[:400]}")


def chat_upstream():
    """An upstream of another dialect, for boto3 as a client of a translated model."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"a\": 1}"}}
    usage = {"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109}

    class Chat(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, media = 200, "application/json"
            if "TOO LONG" in text:
                status, data = 400, json.dumps({"error": {"message": "This model's maximum context length is 9 tokens.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})
            elif json.loads(text).get("stream"):
                media = "text/event-stream"
                chunks = [{"delta": {"role": "assistant", "content": "Héllo 😀"}}, {"delta": {"tool_calls": [{"index": 0, **call}]}}, {"delta": {}, "finish_reason": "tool_calls"}]
                data = "".join("data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, **c}]}) + "\n\n" for c in chunks)
                data += "data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}) + "\n\ndata: [DONE]\n\n"
            else:
                data = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
                                   "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Héllo 😀", "tool_calls": [call]}}]})
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(data.encode())))
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *_):
            pass

    return Chat


def main(binary):
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (Upstream, chat_upstream())]
    for s in servers:
        threading.Thread(target=s.serve_forever, daemon=True).start()
    port = free_port()
    config = f"""
listen: "127.0.0.1:{port}"
providers:
  bedrock: {{ protocol: converse, base_url: "http://127.0.0.1:{servers[0].server_port}", api_key: bedrock-key }}
  chat: {{ protocol: openai-chat, base_url: "http://127.0.0.1:{servers[1].server_port}/v1", api_key: k }}
models:
  nova: {{ targets: ["bedrock/us.amazon.nova-pro-v1:0"] }}
  claude: {{ targets: ["bedrock/us.anthropic.claude-3-7-sonnet-20250219-v1:0"] }}
  via-chat: {{ targets: [chat/m] }}
"""
    with tempfile.TemporaryDirectory() as home:
        # botocore sends a bearer token over HTTPS only.
        cert, key, file = (os.path.join(home, name) for name in ("cert.pem", "key.pem", "isogloss.yaml"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        context = ssl.create_default_context(cafile=cert)
        config += f'tls: {{ cert: "{cert}", key: "{key}" }}\n'
        with open(file, "w") as f:
            f.write(config)
        gateway = subprocess.Popen([binary, "serve", "--config", file], cwd=home, stdout=subprocess.DEVNULL, stderr=open(os.path.join(home, "log"), "w"))
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"https://127.0.0.1:{port}/ready", context=context)
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                sys.exit("the gateway does not start: " + open(os.path.join(home, "log")).read())
            boto_checks(port, cert)
            other_dialects(port, context)
        finally:
            gateway.terminate()
            gateway.wait()
    for f in faults:
        print("FAULT", f)
    print(f"{len(requests)} requests upstream, {len(faults)} faults")
    return 1 if faults or len(requests) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
