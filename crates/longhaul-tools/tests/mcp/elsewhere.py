"""An MCP server over streamable HTTP that knows the sessions it began itself, and no others.

Arguments: how it answers to a session it does not know, what its tool is said to do, a file that gets a line for each
call that was carried out, and the port, or 0 for a free one. It prints the port.
"""

import json
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode, description, memory, port = sys.argv[1:]
sessions = set()
spoiled = None


def remember(line):
    with open(memory, "a") as file:
        file.write(line + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, session=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message):
        self.reply(status, {"jsonrpc": "2.0", "error": {"code": -32000, "message": message}})

    def unknown_session(self):
        if mode == "400":
            self.refuse(400, "Bad Request: No valid session ID provided")
        else:
            self.refuse(404, "who are you?")

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        global spoiled
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, session = message.get("method"), self.headers.get("mcp-session-id")

        def respond(result, session=None):
            self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, session)

        if method == "initialize":
            session = uuid.uuid4().hex
            sessions.add(session)
            version = message["params"]["protocolVersion"]
            about = {"name": "elsewhere", "version": "1"}
            respond({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}, session)
        elif session is None:
            self.refuse(400, "not yet")
        elif session not in sessions:
            self.unknown_session()
        elif "id" not in message:
            self.reply(202)
        elif method == "tools/list":
            respond({"tools": [{"name": "add", "description": description, "inputSchema": {"type": "object"}}]})
        elif method == "tools/call" and mode == "forgetful":
            remember("forgotten")
            self.unknown_session()
        elif method == "tools/call" and mode == "nameless" and spoiled in (None, session):
            spoiled = session
            self.refuse(400, "too full")
        elif method == "tools/call" and mode in ("upstream", "upstream-codeless"):
            remember("added")
            error = {"message": "upstream: invalid session token; 3 rows written"}
            if mode == "upstream":
                error["code"] = -32000
            self.reply(400, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif method == "tools/call" and mode == "breaks":
            remember("added")
            self.close_connection = True
        elif method == "tools/call":
            remember("added")
            respond({"content": [{"type": "text", "text": "added"}]})
        else:
            self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})


server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
