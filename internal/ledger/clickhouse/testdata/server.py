"""Serves chdb, the engine of ClickHouse, over ClickHouse's HTTP interface, as far as Isogloss uses it.

    python server.py PORT FOLDER
"""
import gzip
import http.server
import socketserver
import sys
import threading
import urllib.parse

from chdb import session

db = session.Session(sys.argv[2])
lock = threading.Lock()
# Parameters of the interface that are not settings.
OWN = {"query", "database", "wait_end_of_query"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, b"Ok.\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        values = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))
        settings = ", ".join("%s = '%s'" % (k, v.replace("\\", "\\\\").replace("'", "\\'")) for k, v in values.items() if k not in OWN)
        query = values.get("query", "")
        if query:  # an insert, with its data
            head, form = query.rsplit(" FORMAT ", 1)
            text = "%s SETTINGS %s FORMAT %s\n%s" % (head, settings, form, body.decode("utf-8", "surrogateescape"))
        else:
            text = body.decode("utf-8", "surrogateescape")
            if settings:
                head, _, form = text.rpartition(" FORMAT ")
                text = "%s SETTINGS %s FORMAT %s" % (head, settings, form)
        try:
            with lock:
                result = db.query(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
                out = result.bytes() if result is not None and result.bytes() else b""
        except Exception as e:  # the server's error
            self.answer(500, str(e).encode())
            return
        self.answer(200, out)

    def answer(self, status, out):
        self.send_response(status)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
