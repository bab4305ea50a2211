"""An engine for the example: it answers every chat with the same four words."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ["Hello", " from", " the", " engine."]
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


class Engine(BaseHTTPRequestHandler):
    def do_GET(self):  # /health
        self.say("text/plain", "well\n")

    def do_POST(self):  # /v1/chat/completions
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        same = {"id": "chatcmpl-1", "created": 1, "model": ask["model"]}
        if not ask.get("stream"):
            message = {"role": "assistant", "content": "".join(WORDS)}
            self.say("application/json", json.dumps({
                **same, "object": "chat.completion", "usage": USAGE,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
            return
        events = [{"choices": [{"index": 0, "delta": {"content": w}, "finish_reason": None}]} for w in WORDS]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": USAGE}]
        lines = [json.dumps({**same, "object": "chat.completion.chunk", **e}) for e in events] + ["[DONE]"]
        self.say("text/event-stream", "".join(f"data: {line}\n\n" for line in lines))

    def say(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
