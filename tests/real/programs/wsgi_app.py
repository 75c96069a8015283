# SPDX-License-Identifier: Apache-2.0
"""A plain WSGI service for gunicorn."""

import json

import web_work


def app(environ, start_response):
    body = json.dumps(web_work.rank_results(int(environ["PATH_INFO"][1:]))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
