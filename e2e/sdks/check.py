"""Checks what the newest SDKs for Python read from the gateway, on loopback, where they are stricter than the protocols:
openai joins the lists of several chunks by an index, anthropic keeps unknown members of content_block_start only, and
boto3 keeps none.

    python -m venv VENV && VENV/bin/pip install openai anthropic boto3
    VENV/bin/python e2e/sdks/check.py bin/isogloss
"""

import http.server
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import anthropic
import boto3
import botocore.config
import httpx2
import openai

TEXT = "Cats purr. Dogs bark."
SEAL = "c2lnbmF0dXJl"
faults, sent = [], []


def expect(what, got, want):
    if got != want:
        faults.append(f"{what}: {got!r}, want {want!r}")


def lines(*events):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" if "type" in e else f"data: {json.dumps(e)}\n\n" for e in events)


def messages_stream():
    events = [{"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1}}}]
    for i, (text, page) in enumerate([("Cats purr. ", "cats"), ("Dogs bark.", "dogs")]):
        events += [
            {"type": "content_block_start", "index": i, "content_block": {"type": "text", "text": "", "citations": []}},
            {"type": "content_block_delta", "index": i, "delta": {"type": "citations_delta", "citation": {"type": "web_search_result_location", "url": f"https://example.com/{page}", "title": page, "cited_text": text, "encrypted_index": "e"}}},
            {"type": "content_block_delta", "index": i, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": i}]
    return lines(*events, {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 9}}, {"type": "message_stop"})


def responses_stream():
    notes = [{"type": "url_citation", "url": f"https://example.com/{page}", "title": page, "start_index": a, "end_index": b} for page, a, b in [("cats", 0, 10), ("dogs", 11, 21)]]
    part = {"type": "output_text", "text": TEXT, "annotations": notes, "logprobs": []}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    response = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "output": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events = [{"type": "response.created", "response": response},
              {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
              {"type": "response.content_part.added", **place, "part": {**part, "text": "", "annotations": []}},
              {"type": "response.output_text.delta", **place, "delta": TEXT, "logprobs": []}]
    events += [{"type": "response.output_text.annotation.added", **place, "annotation_index": i, "annotation": n} for i, n in enumerate(notes)]
    events += [{"type": "response.output_text.done", **place, "text": TEXT, "logprobs": []}, {"type": "response.content_part.done", **place, "part": part},
               {"type": "response.output_item.done", "output_index": 0, "item": item},
               {"type": "response.completed", "response": {**response, "status": "completed", "output": [item], "usage": {"input_tokens": 3, "output_tokens": 9, "total_tokens": 12}}}]
    return lines(*({**e, "sequence_number": i} for i, e in enumerate(events)))


def gemini_stream(request):
    tail = {"modelVersion": "m", "responseId": "r", "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 9, "totalTokenCount": 12}}
    if "tools" in request:
        call = {"functionCall": {"id": "call_1", "name": "look", "args": {"a": 1}}, "thoughtSignature": SEAL}
        return lines({"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP", "index": 0}], **tail})
    grounding = {"groundingChunks": [{"web": {"uri": "https://example.com/cats", "title": "cats"}}, {"web": {"uri": "https://example.com/dogs", "title": "dogs"}}],
                 "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 10}, "groundingChunkIndices": [0]}, {"segment": {"startIndex": 11, "endIndex": 21}, "groundingChunkIndices": [1]}]}
    return lines({"candidates": [{"content": {"role": "model", "parts": [{"text": "Cats purr. "}]}, "index": 0}]},
                 {"candidates": [{"content": {"role": "model", "parts": [{"text": "Dogs bark."}]}, "groundingMetadata": grounding, "finishReason": "STOP", "index": 0}], **tail})


class Upstream(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sent.append(request)
        if self.path.startswith("/v1/messages"):
            body = messages_stream()
        elif self.path.startswith("/v1/responses"):
            body = responses_stream()
        else:
            body = gemini_stream(request)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def citations(port, context):
    """The helper of chat.completions joins the chunks of a response with two citations."""
    client = openai.OpenAI(base_url=f"https://127.0.0.1:{port}/v1", api_key="k", http_client=httpx2.Client(verify=context), max_retries=0)
    for model in ("messages", "responses", "gemini"):
        try:
            with client.chat.completions.stream(model=model, messages=[{"role": "user", "content": "Tell me."}]) as stream:
                message = stream.get_final_completion().choices[0].message
        except Exception as e:  # whatever the SDK raises is a fault of the stream
            faults.append(f"{model}: {type(e).__name__}: {e}")
            continue
        expect(f"{model}: text", message.content, TEXT)
        noted = [(n["url_citation"] if isinstance(n, dict) else n.url_citation.model_dump()) for n in message.model_dump().get("annotations") or []]
        expect(f"{model}: pages", [n["title"] for n in noted], ["cats", "dogs"])
        expect(f"{model}: spans", [TEXT[n["start_index"]:n["end_index"]].strip() for n in noted], ["Cats purr.", "Dogs bark."])


def returned_seals():
    """Returns the signatures on calls in the last request upstream."""
    return [p["thoughtSignature"] for c in sent[-1]["contents"] for p in c["parts"] if "functionCall" in p and "thoughtSignature" in p]


def messages_seal(port, context):
    """anthropic returns the signature of Gemini's call that it has read from a stream."""
    client = anthropic.Anthropic(base_url=f"https://127.0.0.1:{port}", api_key="k", http_client=httpx2.Client(verify=context), max_retries=0)
    tools = [{"name": "look", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
    turns = [{"role": "user", "content": "Look."}]
    with client.messages.stream(model="gemini", max_tokens=99, messages=turns, tools=tools) as stream:
        message = stream.get_final_message()
    expect("anthropic: the call", (message.content[-1].name, message.content[-1].input), ("look", {"a": 1}))
    turns += [{"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in message.content]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": message.content[-1].id, "content": "1"}]}]
    with client.messages.stream(model="gemini", max_tokens=99, messages=turns, tools=tools) as stream:
        stream.get_final_message()
    expect("anthropic: the signatures", returned_seals(), [SEAL])


def converse_seal(port, cert):
    """boto3 drops unknown members, so that the gateway restores the signature."""
    os.environ["AWS_BEARER_TOKEN_BEDROCK"] = "k"
    client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=f"https://127.0.0.1:{port}", verify=cert, config=botocore.config.Config(retries={"max_attempts": 1}))
    tools = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object", "properties": {"a": {"type": "integer"}}}}}}]}
    turns = [{"role": "user", "content": [{"text": "Look."}]}]
    use, args = {}, ""
    for event in client.converse_stream(modelId="gemini", messages=turns, toolConfig=tools)["stream"]:
        use = event.get("contentBlockStart", {}).get("start", {}).get("toolUse", use)
        args += event.get("contentBlockDelta", {}).get("delta", {}).get("toolUse", {}).get("input", "")
    expect("boto3: the call", (use.get("name"), json.loads(args)), ("look", {"a": 1}))
    use = {"toolUseId": use["toolUseId"], "name": use["name"], "input": json.loads(args)}
    turns += [{"role": "assistant", "content": [{"toolUse": use}]}, {"role": "user", "content": [{"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "1"}]}}]}]
    for _ in client.converse_stream(modelId="gemini", messages=turns, toolConfig=tools)["stream"]:
        pass
    expect("boto3: the signatures", returned_seals(), [SEAL])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main(binary):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port, up = free_port(), f"http://127.0.0.1:{server.server_port}"
    config = f"""
listen: "127.0.0.1:{port}"
providers:
  messages: {{ protocol: anthropic, base_url: "{up}", api_key: k }}
  responses: {{ protocol: openai-responses, base_url: "{up}/v1", api_key: k }}
  gemini: {{ protocol: gemini, base_url: "{up}", api_key: k }}
models:
  messages: {{ targets: [messages/m] }}
  responses: {{ targets: [responses/m] }}
  gemini: {{ targets: [gemini/gemini-3-pro] }}
"""
    with tempfile.TemporaryDirectory() as home:
        # botocore sends a bearer token over HTTPS only.
        cert, key, file = (os.path.join(home, name) for name in ("cert.pem", "key.pem", "isogloss.yaml"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        context = ssl.create_default_context(cafile=cert)
        with open(file, "w") as f:
            f.write(config + f'tls: {{ cert: "{cert}", key: "{key}" }}\n')
        gateway = subprocess.Popen([binary, "serve", "--config", file], cwd=home, stdout=subprocess.DEVNULL, stderr=open(os.path.join(home, "log"), "w"))
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"https://127.0.0.1:{port}/ready", context=context)
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                sys.exit("the gateway does not start: " + open(os.path.join(home, "log")).read())
            citations(port, context)
            messages_seal(port, context)
            converse_seal(port, cert)
        finally:
            gateway.terminate()
            gateway.wait()
    for f in faults:
        print("FAULT", f)
    print(f"openai {openai.__version__}, anthropic {anthropic.__version__}, boto3 {boto3.__version__}: {len(sent)} requests upstream, {len(faults)} faults")
    return 1 if faults or len(sent) != 7 else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
