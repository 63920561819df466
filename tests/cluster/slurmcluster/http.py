# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP over the daemon's control socket."""

import http.client
import json
import socket


class UnixConnection(http.client.HTTPConnection):
    """One connection to a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        """Connects to the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        """The status of one request with a JSON body; the connection stays open."""
        data = None if body is None else json.dumps(body)
        self.request(method, path, data, {"Content-Type": "application/json"})
        reply = self.getresponse()
        reply.read()
        return reply.status
