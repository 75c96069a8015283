# SPDX-License-Identifier: Apache-2.0
"""A FastAPI service for uvicorn."""

import fastapi
import web_work

app = fastapi.FastAPI()


@app.get("/{query}")
def search(query: int):
    return web_work.rank_results(query)
