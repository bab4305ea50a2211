"""Checks the gateway with the vendors' SDKs for Python, configured for their clouds, on loopback.

    internal/targets/cloud/setup.sh VENV
    VENV/bin/python e2e/clouds/check.py bin/isogloss

Every client meets every upstream: a response and a stream with a tool call, a picture in the
request, a refusal that names the operator's resources, a stream that ends in an error. The
clients' own types are the judges of the gateway's responses, and the upstreams (upstream.py)
are the judges of its requests.
"""

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import anthropic
import botocore.config
import botocore.exceptions
import botocore.session
import google.auth.credentials
import google.genai
import google.genai.errors
import openai
from anthropic.lib.bedrock import AnthropicBedrockMantle
from anthropic.lib.foundry import AnthropicFoundry
from google.genai import types

import upstream
from upstream import PNG, PRIVATE, TEXT, converse, faults

KEY = "sk-client-key-of-the-gateway"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
IMAGE = f"data:image/png;base64,{PNG}"
MODELS = ["claude-bedrock", "claude-profile", "claude-vertex", "claude-converse", "gemini-vertex", "gpt-azure", "gpt-azure-responses", "gpt-bedrock"]
checks = 0


def expect(what, got, want):
    global checks
    checks += 1
    if got != want:
        faults.append(f"{what}: {got!r}, want {want!r}")


def refused(what, call, errors, status):
    """Makes a call that must raise one of the errors, without the operator's names."""
    try:
        call()
    except errors as e:
        shown = repr(e) + str(e) + repr(getattr(e, "body", "")) + repr(getattr(e, "response", ""))
        if (headers := getattr(getattr(e, "response", None), "headers", None)) is not None:
            shown += repr(dict(headers))
        expect(f"{what}: operator's names", [name for name in PRIVATE if name in shown], [])
        got = getattr(e, "status_code", None) or getattr(e, "code", None)
        if isinstance(e, botocore.exceptions.ClientError):
            got = e.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status:
            expect(f"{what}: status", got, status)
        return e
    faults.append(f"{what}: no error")


def anthropic_clients(url):
    google_key = dict(region="us-east5", project_id="p-1", access_token=KEY)
    return {
        "AnthropicBedrock": anthropic.AnthropicBedrock(api_key=KEY, aws_region="us-east-1", base_url=url, max_retries=0),
        "AnthropicVertex": anthropic.AnthropicVertex(base_url=url + "/v1", max_retries=0, **google_key),
        "AnthropicBedrockMantle": AnthropicBedrockMantle(api_key=KEY, aws_region="us-east-1", base_url=url, max_retries=0),
        "AnthropicBedrockMantle skip_auth": AnthropicBedrockMantle(skip_auth=True, aws_region="us-east-1", base_url=url, max_retries=0, default_headers={"Authorization": "Bearer " + KEY}),
        "AnthropicFoundry": AnthropicFoundry(api_key=KEY, base_url=url, max_retries=0),
    }


def check_anthropic(url):
    for name, client in anthropic_clients(url).items():
        for model in MODELS:
            what = f"{name} on {model}"
            ask = dict(model=model, max_tokens=100, system="Be brief.", tools=[{"name": "look", "description": "d", "input_schema": SCHEMA}],
                       messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}])
            message = client.messages.create(**ask)
            calls = [b for b in message.content if b.type == "tool_use"]
            expect(what, ([b.text for b in message.content if b.type == "text"], [(c.name, c.input) for c in calls], message.stop_reason, message.usage.output_tokens), ([TEXT], [("look", {"a": 1})], "tool_use", 9))
            turn = [{"role": "assistant", "content": message.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": calls[0].id, "content": "42"}]}]
            client.messages.create(**{**ask, "messages": ask["messages"] + turn})
            with client.messages.stream(**ask) as stream:
                final = stream.get_final_message()
            expect(what + ", stream", ("".join(b.text for b in final.content if b.type == "text"), [(b.name, b.input) for b in final.content if b.type == "tool_use"], final.stop_reason, final.usage.output_tokens),
                   (TEXT, [("look", {"a": 1})], "tool_use", 9))
            say = lambda text: dict(model=model, max_tokens=9, messages=[{"role": "user", "content": text}])  # noqa: E731
            refused(what + ", 429", lambda: client.messages.create(**say("SLOW DOWN")), anthropic.APIStatusError, 429)

            def broken():
                with client.messages.stream(**say("BREAK")) as stream:
                    stream.get_final_message()

            refused(what + ", broken stream", broken, (anthropic.APIError, anthropic.AnthropicError), None)
    for name, model in (("AnthropicVertex", "claude-vertex"), ("AnthropicBedrockMantle", "claude-bedrock"), ("AnthropicFoundry", "claude-vertex")):
        expect(f"{name}, count", anthropic_clients(url)[name].messages.count_tokens(model=model, messages=[{"role": "user", "content": "hi"}]).input_tokens, 42)


def openai_clients(url):
    return {
        "BedrockOpenAI": openai.BedrockOpenAI(api_key=KEY, base_url=url + "/v1", max_retries=0),
        "AzureOpenAI": openai.AzureOpenAI(api_key=KEY, azure_endpoint=url, api_version="2025-04-01-preview", max_retries=0),
        "AzureOpenAI with a token": openai.AzureOpenAI(azure_ad_token=KEY, azure_endpoint=url, api_version="2025-04-01-preview", max_retries=0),
    }


def check_openai(url):
    for name, client in openai_clients(url).items():
        for model in MODELS:
            check_chat(f"{name}, Chat, on {model}", client, model)
            check_responses(f"{name}, Responses, on {model}", client, model)


def check_chat(what, client, model):
    ask = dict(model=model, tools=[{"type": "function", "function": {"name": "look", "description": "d", "parameters": SCHEMA}}],
               messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": IMAGE}}]}])
    whole = client.chat.completions.create(**ask)
    message = whole.choices[0].message
    expect(what, (message.content, [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls], whole.choices[0].finish_reason, whole.usage.completion_tokens),
           (TEXT, [("look", {"a": 1})], "tool_calls", 9))
    turn = [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "42"}]
    client.chat.completions.create(**{**ask, "messages": ask["messages"] + turn})
    text, args, finish, tokens = "", "", None, None
    for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        for choice in chunk.choices:
            text += choice.delta.content or ""
            args += "".join(c.function.arguments or "" for c in choice.delta.tool_calls or [])
            finish = choice.finish_reason or finish
    expect(what + ", stream", (text, json.loads(args), finish, tokens), (TEXT, {"a": 1}, "tool_calls", 9))
    say = lambda text: dict(model=model, messages=[{"role": "user", "content": text}])  # noqa: E731
    refused(what + ", 429", lambda: client.chat.completions.create(**say("SLOW DOWN")), openai.APIStatusError, 429)
    refused(what + ", broken stream", lambda: list(client.chat.completions.create(**say("BREAK"), stream=True)), openai.APIError, None)


def check_responses(what, client, model):
    ask = dict(model=model, store=False, tools=[{"type": "function", "name": "look", "description": "d", "parameters": SCHEMA, "strict": False}],
               input=[{"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": IMAGE, "detail": "auto"}]}])
    whole = client.responses.create(**ask)
    calls = [(o.name, json.loads(o.arguments)) for o in whole.output if o.type == "function_call"]
    expect(what, (whole.output_text, calls, whole.usage.output_tokens), (TEXT, [("look", {"a": 1})], 9))
    events = list(client.responses.create(**ask, stream=True))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    expect(what + ", stream", (text, events[-1].type), (TEXT, "response.completed"))
    refused(what + ", 429", lambda: client.responses.create(model=model, input="SLOW DOWN", store=False), openai.APIStatusError, 429)

    def broken():
        last = list(client.responses.create(model=model, input="BREAK", store=False, stream=True))[-1]
        if last.type != "response.completed":
            raise openai.OpenAIError(last.model_dump_json())

    refused(what + ", broken stream", broken, openai.OpenAIError, None)


class GatewayKey(google.auth.credentials.Credentials):
    """A key of the gateway in place of Google's token."""

    def __init__(self):
        super().__init__()
        self.token = KEY

    def refresh(self, request):
        pass


def check_google(url):
    for version in ("v1", "v1beta1"):
        client = google.genai.Client(vertexai=True, project="p-1", location="us-east5", credentials=GatewayKey(), http_options={"base_url": url, "api_version": version})
        for model in MODELS:
            what = f"google-genai {version} on {model}"
            config = types.GenerateContentConfig(max_output_tokens=100, system_instruction="Be brief.", automatic_function_calling={"disable": True},
                                                 tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="look", description="d", parameters={"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}})])])
            ask = dict(model=model, config=config, contents=[types.Part.from_text(text="hi"), types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")])
            whole = client.models.generate_content(**ask)
            texts = "".join(p.text for p in whole.candidates[0].content.parts if p.text and not p.thought)
            expect(what, (texts, [(c.name, c.args) for c in whole.function_calls], whole.candidates[0].finish_reason.name, whole.usage_metadata.candidates_token_count), (TEXT, [("look", {"a": 1})], "STOP", 9))
            parts = [p for c in client.models.generate_content_stream(**ask) if c.candidates and c.candidates[0].content for p in c.candidates[0].content.parts or []]
            expect(what + ", stream", ("".join(p.text for p in parts if p.text and not p.thought), [(p.function_call.name, p.function_call.args) for p in parts if p.function_call]), (TEXT, [("look", {"a": 1})]))
            refused(what + ", 429", lambda: client.models.generate_content(model=model, contents="SLOW DOWN"), google.genai.errors.APIError, 429)
            refused(what + ", broken stream", lambda: list(client.models.generate_content_stream(model=model, contents="BREAK")), google.genai.errors.APIError, None)
        expect("google-genai, count", client.models.count_tokens(model="gemini-vertex", contents="hi").total_tokens, 42)


def check_boto3(url, cert):
    os.environ.update(AWS_BEARER_TOKEN_BEDROCK=KEY, AWS_EC2_METADATA_DISABLED="true")
    client = botocore.session.get_session().create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, verify=cert, config=botocore.config.Config(retries={"max_attempts": 1, "mode": "standard"}))
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 100, "tools": [{"name": "look", "input_schema": SCHEMA}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}]}
    tools = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": SCHEMA}}}]}
    ask = dict(toolConfig=tools, messages=[{"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}}]}])
    say = lambda text: json.dumps({**body, "messages": [{"role": "user", "content": text}]})  # noqa: E731
    words = lambda text: [{"role": "user", "content": [{"text": text}]}]  # noqa: E731
    for model in MODELS:
        what = f"boto3 on {model}"
        got = client.invoke_model(modelId=model, body=json.dumps(body))
        message = anthropic.types.Message.model_validate(json.loads(got["body"].read()))
        expect(what + ", InvokeModel", (got["contentType"], [b.text for b in message.content if b.type == "text"], [(b.name, b.input) for b in message.content if b.type == "tool_use"]),
               ("application/json", [TEXT], [("look", {"a": 1})]))
        text, last = "", None
        for event in client.invoke_model_with_response_stream(modelId=model, body=json.dumps(body))["body"]:
            last = json.loads(event["chunk"]["bytes"])
            text += last.get("delta", {}).get("text", "")
        expect(what + ", InvokeModelWithResponseStream", (text, last["type"]), (TEXT, "message_stop"))
        whole = client.converse(modelId=model, **ask)
        content = whole["output"]["message"]["content"]
        expect(what + ", Converse", ([b["text"] for b in content if "text" in b], [b["toolUse"]["input"] for b in content if "toolUse" in b], whole["stopReason"], whole["usage"]["outputTokens"]), ([TEXT], [{"a": 1}], "tool_use", 9))
        events = list(client.converse_stream(modelId=model, **ask)["stream"])
        text = "".join(e["contentBlockDelta"]["delta"].get("text", "") for e in events if "contentBlockDelta" in e)
        expect(what + ", ConverseStream", (text, next(iter(events[-1]))), (TEXT, "metadata"))
        e = refused(what + ", InvokeModel, 429", lambda: client.invoke_model(modelId=model, body=say("SLOW DOWN")), botocore.exceptions.ClientError, 429)
        expect(what + ", InvokeModel, 429, exception", e and e.response["Error"]["Code"], "ThrottlingException")
        e = refused(what + ", Converse, 429", lambda: client.converse(modelId=model, messages=words("SLOW DOWN")), botocore.exceptions.ClientError, 429)
        expect(what + ", Converse, 429, exception", e and e.response["Error"]["Code"], "ThrottlingException")
        refused(what + ", InvokeModelWithResponseStream, broken", lambda: list(client.invoke_model_with_response_stream(modelId=model, body=say("BREAK"))["body"]), botocore.exceptions.EventStreamError, None)
        refused(what + ", ConverseStream, broken", lambda: list(client.converse_stream(modelId=model, messages=words("BREAK"))["stream"]), botocore.exceptions.EventStreamError, None)
    e = refused("boto3, an exhausted quota", lambda: client.invoke_model(modelId="claude-bedrock", body=say("NO QUOTA")), botocore.exceptions.ClientError, 429)
    expect("boto3, an exhausted quota, exception", e and e.response["Error"]["Code"], "ThrottlingException")
    count = client.count_tokens(modelId="claude-bedrock", input={"invokeModel": {"body": json.dumps(body)}})
    expect("boto3, CountTokens", count["inputTokens"], 42)
    signed = botocore.session.Session()
    signed.set_credentials("AKIAEXAMPLE", "secret")
    del os.environ["AWS_BEARER_TOKEN_BEDROCK"]
    client = signed.create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, verify=cert)
    e = refused("boto3, a signature", lambda: client.invoke_model(modelId="claude-bedrock", body=json.dumps(body)), botocore.exceptions.ClientError, 401)
    expect("boto3, a signature, the setting to use", "AWS_BEARER_TOKEN_BEDROCK" in str(e), True)


def config(clouds, bedrock):
    base = f"http://127.0.0.1:{clouds}"
    return f"""
keys: [ {KEY} ]
retries: {{ attempts: 1 }}
providers:
  bedrock: {{ preset: bedrock, region: us-east-1, base_url: "{base}/bedrock", api_key: bedrock-key }}
  vertex-claude: {{ preset: vertex-anthropic, region: us-east5, project: my-project-77, base_url: "{base}/vertex", api_key: vertex-key }}
  vertex: {{ preset: vertex, region: us-east5, project: my-project-77, base_url: "{base}/vertex", api_key: vertex-key }}
  azure: {{ preset: azure, base_url: "{base}/azure/openai/deployments/{{model}}?api-version=2025-04-01-preview", api_key: azure-key }}
  azure-responses: {{ preset: azure, protocol: openai-responses, base_url: "{base}/azurev1/openai/v1", api_key: azure-key }}
  bedrock-openai: {{ preset: bedrock-openai, region: us-east-1, base_url: "{base}/bedrockai/openai/v1", api_key: bedrock-key }}
  converse: {{ protocol: converse, base_url: "http://127.0.0.1:{bedrock}", api_key: bedrock-key }}
models:
  claude-bedrock: {{ targets: ["bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"] }}
  claude-profile: {{ targets: ["bedrock/{upstream.ARN}"] }}
  claude-vertex: {{ targets: ["vertex-claude/claude-sonnet-4-5@20250929"] }}
  claude-converse: {{ targets: ["converse/us.anthropic.claude-3-7-sonnet-20250219-v1:0"] }}
  gemini-vertex: {{ targets: [vertex/gemini-3-pro] }}
  gpt-azure: {{ targets: [azure/gpt-6-luna] }}
  gpt-azure-responses: {{ targets: [azure-responses/gpt-6-luna] }}
  gpt-bedrock: {{ targets: [bedrock-openai/openai.gpt-oss-120b] }}
"""


def start(binary, home, name, text, context=None):
    port = converse.free_port()
    file = os.path.join(home, name + ".yaml")
    with open(file, "w") as f:
        f.write(f'listen: "127.0.0.1:{port}"\n' + text)
    log = os.path.join(home, name + ".log")
    gateway = subprocess.Popen([binary, "serve", "--config", file], cwd=home, stdout=subprocess.DEVNULL, stderr=open(log, "w"))
    url = f"http{'s' if context else ''}://127.0.0.1:{port}"
    for _ in range(100):
        try:
            urllib.request.urlopen(url + "/ready", context=context)
            return gateway, url
        except OSError:
            time.sleep(0.1)
    gateway.terminate()
    sys.exit("the gateway does not start: " + open(log).read())


def main(binary):
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (upstream.Clouds, upstream.Converse)]
    for s in servers:
        s.request_queue_size = 128
        threading.Thread(target=s.serve_forever, daemon=True).start()
    text = config(*(s.server_port for s in servers))
    gateways = []
    with tempfile.TemporaryDirectory() as home:
        cert, key = (os.path.join(home, name) for name in ("cert.pem", "key.pem"))  # botocore sends a bearer token over HTTPS only
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        try:
            gateway, url = start(binary, home, "plain", text)
            gateways.append(gateway)
            gateway, tls = start(binary, home, "tls", text + f'tls: {{ cert: "{cert}", key: "{key}" }}\n', ssl.create_default_context(cafile=cert))
            gateways.append(gateway)
            for part in (lambda: check_anthropic(url), lambda: check_openai(url), lambda: check_google(url), lambda: check_boto3(tls, cert)):
                try:
                    part()
                except Exception as e:  # what an SDK raises is a fault of the gateway
                    faults.append(f"{type(e).__name__} at line {e.__traceback__.tb_next.tb_next.tb_lineno if e.__traceback__.tb_next.tb_next else '?'}: {str(e)[:500]}")
        finally:
            for gateway in gateways:
                gateway.terminate()
                gateway.wait()
    faults.extend(converse.faults)
    for f in faults:
        print("FAULT", f)
    print(f"{checks} checks, {len(upstream.requests) + len(converse.requests)} requests upstream, {len(faults)} faults")
    return 1 if faults or checks < 500 else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
