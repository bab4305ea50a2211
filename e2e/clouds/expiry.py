"""Runs the gateway under load with tokens that live for seconds, on loopback.

    VENV/bin/python e2e/clouds/expiry.py bin/isogloss [SECONDS]

Google's tokens come from a metadata server, Azure's from a managed identity's server, AWS's from
moto's STS behind a counter. The issuers are slow, refuse with 403, are away and return another
token; the upstreams accept only tokens that are valid at that moment. No request may fail for a
token that could have been renewed, and one fetch at most may be in flight for a credential.
"""

import collections
import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

LIFE = 6.0  # seconds of a token
lock = threading.Lock()
issued = {}  # token -> (issuer, end)
secrets = {}  # access key id -> (secret, session token)
in_flight, most, fetches = collections.Counter(), collections.Counter(), collections.Counter()
faults = []
began = time.time()


class Fetch:
    """Counts the fetches of a credential that are in flight."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        with lock:
            in_flight[self.name] += 1
            fetches[self.name] += 1
            most[self.name] = max(most[self.name], in_flight[self.name])
            return fetches[self.name]

    def __exit__(self, *_):
        with lock:
            in_flight[self.name] -= 1


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, status, value, headers=None):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, v in {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, v)
        try:
            self.end_headers()
            self.wfile.write(data)
        except BrokenPipeError:  # the gateway has ended
            pass

    def log_message(self, *_):
        pass


class Issuer(Server):
    """The token servers. Every third fetch is slow, every fourth is refused at first."""

    def do_GET(self):
        name = "google" if "computeMetadata" in self.path else "azure"
        if name == "google" and self.headers["Metadata-Flavor"] != "Google":
            return self.send(403, {})
        with Fetch(name) as n:
            if n % 3 == 0:
                time.sleep(0.7)
            if n % 4 == 0:
                return self.send(403, {"error": "not now"})
            token = f"{name}-token-{n}-{os.urandom(4).hex()}"
            with lock:
                issued[token] = (name, time.time() + LIFE)
        if name == "google":
            return self.send(200, {"access_token": token, "expires_in": int(LIFE), "token_type": "Bearer"}, {"Metadata-Flavor": "Google"})
        self.send(200, {"access_token": token, "expires_in": str(int(LIFE)), "expires_on": str(int(time.time() + LIFE)), "resource": "r", "token_type": "Bearer"})


def sts(port):
    """The STS of moto, whose tokens are cut to a short life."""

    class STS(Server):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with Fetch("aws") as n:
                if n % 3 == 0:
                    time.sleep(0.7)
                to = http.client.HTTPConnection("127.0.0.1", port)
                to.request("POST", "/", body, {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "accept-encoding")})
                answer = to.getresponse()
                text = answer.read().decode()
                if answer.status != 200:
                    faults.append(f"moto: {answer.status} {text[:300]}")
                part = lambda tag: text.split(f"<{tag}>")[1].split("<")[0]  # noqa: E731
                end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFE))
                text = text.replace(part("Expiration"), end)
                with lock:
                    secrets[part("AccessKeyId")] = (part("SecretAccessKey"), part("SessionToken"), time.time() + LIFE + 1)
            self.send(200, text.encode(), {"Content-Type": "text/xml"})

    return STS


class Upstream(Server):
    """Accepts tokens that are valid now, and signatures that botocore computes too."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        cloud = self.path.split("/")[1]
        problem = self.signature(body) if cloud == "aws" else self.token(cloud)
        if problem:
            with lock:
                refusals[cloud + ": " + problem] += 1
            return self.send(403, {"error": {"message": problem, "code": "403"}})
        self.send(200, {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]})

    def token(self, cloud):
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        with lock:
            name, end = issued.get(token, ("", 0))
        if name != cloud:
            return "no token"
        return "" if time.time() < end + 0.5 else "expired"

    def signature(self, body):
        fields = dict(part.strip().split("=", 1) for part in self.headers["Authorization"].split(" ", 1)[1].split(","))
        key, _, region, service, _ = fields["Credential"].split("/")
        with lock:
            secret, session, end = secrets.get(key, ("", "", 0))
        if time.time() > end:
            return "expired"
        request = AWSRequest(method="POST", url=f"http://{self.headers['Host']}{self.path}", data=body)
        for name in fields["SignedHeaders"].split(";"):
            request.headers.add_header(name, self.headers[name])
        request.context["timestamp"] = self.headers["x-amz-date"]
        auth = SigV4Auth(Credentials(key, secret, session), service, region)
        if auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request) != fields["Signature"]:
            return "another signature"
        return "" if self.headers["x-amz-security-token"] == session else "no session token"


refusals = collections.Counter()
outcomes = collections.Counter()


def load(port, model, until):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi é"}]}).encode()
    while time.time() < until:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        with lock:
            outcomes[model, answer.status] += 1
            if answer.status != 200 and outcomes[model, answer.status] <= 3:
                faults.append(f"{model} after {time.time() - began:.1f} s: {answer.status} {text[:300]}")
        time.sleep(0.02)


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url, log=os.devnull):
    for _ in range(200):
        try:
            return urllib.request.urlopen(url)
        except urllib.error.HTTPError:
            return None
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} does not start: {open(log).read()}")


def main(binary, seconds):
    moto_port, issuer, upstream, port = free_port(), serve(Issuer), serve(Upstream), free_port()
    counter = serve(sts(moto_port))
    moto = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(moto_port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    gateway = None
    with tempfile.TemporaryDirectory() as home:
        config = os.path.join(home, "isogloss.yaml")
        with open(config, "w") as f:
            f.write(f"""
listen: "127.0.0.1:{port}"
retries: {{ attempts: 1 }}
providers:
  google: {{ protocol: openai-chat, base_url: "http://127.0.0.1:{upstream}/google/v1", auth: google }}
  azure: {{ protocol: openai-chat, base_url: "http://127.0.0.1:{upstream}/azure/v1", auth: azure }}
  aws: {{ protocol: openai-chat, base_url: "http://127.0.0.1:{upstream}/aws/v1", auth: aws, region: us-east-1, aws: {{ service: bedrock, roles: ["arn:aws:iam::123456789012:role/gateway"] }} }}
models:
  google: {{ targets: [google/m] }}
  azure: {{ targets: [azure/m] }}
  aws: {{ targets: [aws/m] }}
""")
        env = {"PATH": os.environ["PATH"], "HOME": home, "GCE_METADATA_HOST": f"127.0.0.1:{issuer}", "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret",
               "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{counter}", "AWS_EC2_METADATA_DISABLED": "true",
               "IDENTITY_ENDPOINT": f"http://127.0.0.1:{issuer}/msi/token", "IDENTITY_HEADER": "header"}
        log = open(os.path.join(home, "log"), "w")
        try:
            wait_for(f"http://127.0.0.1:{moto_port}/moto-api/data.json")
            gateway = subprocess.Popen([binary, "serve", "--config", config], cwd=home, env=env, stdout=log, stderr=log)
            wait_for(f"http://127.0.0.1:{port}/ready", log.name)
            until = time.time() + seconds
            threads = [threading.Thread(target=load, args=(port, model, until)) for model in ("google", "azure", "aws") for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            text = open(os.path.join(home, "log")).read()
            leaked = [t for t in list(issued) + [s for v in secrets.values() for s in v[:2]] if t in text]
            if leaked:
                faults.append(f"the log has {len(leaked)} tokens")
        finally:
            for process in (gateway, moto):
                if process:
                    process.send_signal(signal.SIGTERM)
                    process.wait()
    for name in ("google", "azure", "aws"):
        if most[name] > 1:
            faults.append(f"{name}: {most[name]} fetches at once")
        if fetches[name] < seconds / 20 or not outcomes[name, 200]:
            faults.append(f"{name}: {fetches[name]} fetches, {outcomes[name, 200]} responses")
    for f in faults:
        print("FAULT", f)
    print(f"responses {dict(outcomes)}, fetches {dict(fetches)}, refusals {dict(refusals)}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60))
