# SPDX-License-Identifier: GPL-3.0-or-later
"""App of Open OnDemand: what `phalanx explain` says of each waiting job of the user.

Copy this directory to /var/www/ood/apps/sys/phalanx. It needs squeue and phalanx on the web node,
runs as the user who is logged in, and thus shows what that user may see.
"""

import html
import json
import subprocess
import time

MOST = 30    # jobs; each is one question to phalanxd
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Why my jobs wait</title>
<style>body{{font:1rem sans-serif;margin:2rem}}td,th{{text-align:left;padding:.3rem 1rem .3rem 0}}
</style><h1>Why my jobs wait</h1>{}</html>"""


def ask(*words):
    """What a command prints. Raises OSError with what it complains of."""
    try:
        done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace",
                              timeout=20, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} did not answer in {error.timeout} s") from error
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
    return done.stdout


def why(job):
    """The sentence about a job, and the times by which it likely starts."""
    pending = json.loads(ask("phalanx", "explain", job, "--json"))["pending"]
    if not pending:
        return "It has started.", ""
    clock = [time.strftime("%d %b %H:%M", time.localtime(ms / 1000))
             for ms in pending.get("start_ms") or ()]
    return pending["summary"], " to ".join(dict.fromkeys(clock))


def table():
    """The rows of the page."""
    jobs = ask("squeue", "--me", "-h", "-t", "PD", "-o", "%i|%P|%j").splitlines()
    rows = ["<tr><th>Job<th>Partition<th>Name<th>Waits for<th>Expected to start"]
    for job, partition, name in (line.split("|", 2) for line in jobs[:MOST]):
        try:
            cells = job, partition, name, *why(job)
        except (OSError, ValueError, KeyError) as error:
            cells = job, partition, name, f"not known: {error}", ""
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    more = f"<p>And {len(jobs) - MOST} more." if len(jobs) > MOST else ""
    return f"<table>{''.join(rows)}</table>{more}" if jobs else "<p>No job of yours waits."


def application(_environ, start_response):
    """The page, by WSGI."""
    status = "200 OK"
    try:
        text = table()
    except OSError as error:
        status, text = "503 Service Unavailable", f"<p>{html.escape(str(error))}"
    start_response(status, [("Content-Type", "text/html; charset=utf-8")])
    return [PAGE.format(text).encode()]
