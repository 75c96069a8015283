# SPDX-License-Identifier: Apache-2.0
"""A long job that marks its phases with named sessions, as in the documentation."""
import requests
import time

API_URL = "http://localhost:8091"

# Start main profiling
requests.post(f"{API_URL}/profiling/start", json={"name": "main_workflow"})

# Start detailed profiling for specific phase
time.sleep(30)
requests.post(f"{API_URL}/profiling/start", json={"name": "data_loading_phase"})

# Run data loading...
time.sleep(60)

# Stop data loading profiling
requests.post(f"{API_URL}/profiling/stop", json={"name": "data_loading_phase"})

# Continue with training...
time.sleep(120)

# Start profiling for training phase
requests.post(f"{API_URL}/profiling/start", json={"name": "training_phase"})

# Run training...
time.sleep(300)

# Stop all profiling
requests.post(f"{API_URL}/profiling/stop", json={})
