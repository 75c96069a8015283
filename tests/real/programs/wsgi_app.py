# SPDX-License-Identifier: Apache-2.0
"""A service in plain WSGI, for gunicorn."""

import json

import web_work


def app(environ, start_response):
    body = json.dumps(web_work.rank_results(int(environ["PATH_INFO"][1:]))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
