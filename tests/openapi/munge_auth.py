# SPDX-License-Identifier: GPL-3.0-or-later
"""Hook of schemathesis: each request carries its own MUNGE credential."""

import hashlib
import subprocess

import requests
import schemathesis


class MungeAuth(requests.auth.AuthBase):  # pylint: disable=too-few-public-methods
    """Signs method, path and body as docs/data-service.md says."""

    def __call__(self, request):
        body = request.body or b""
        if isinstance(body, str):
            body = body.encode()
        digest = hashlib.sha256(body).hexdigest()
        payload = f"phalanx/1\n{request.method}\n{request.path_url}\n{digest}\n"
        done = subprocess.run(["munge"], input=payload.encode(), capture_output=True, check=True)
        request.headers["Authorization"] = "Munge " + done.stdout.decode().strip()
        return request


schemathesis.auth.set_from_requests(MungeAuth())
