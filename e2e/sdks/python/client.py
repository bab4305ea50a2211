"""Plays scenarios with the OpenAI SDK for Python.

Reads one scenario per line (its name, the base URL, the API key) and writes for
each one line of JSON: what the SDK saw. The version that must be installed is the
only argument.
"""

import asyncio
import json
import sys

import openai
from openai import AsyncOpenAI, OpenAI

from reports import failure
from scenarios import SCENARIOS


def play(name, base_url, key):
    options = {"base_url": base_url, "api_key": key, "max_retries": 0, "timeout": 20}
    scenario = SCENARIOS[name]
    if asyncio.iscoroutinefunction(scenario):

        async def run():
            async with AsyncOpenAI(**options) as client:
                return await scenario(client)

        return asyncio.run(run())
    with OpenAI(**options) as client:
        return scenario(client)


def main():
    if openai.__version__ != sys.argv[1]:
        sys.exit(f"openai {openai.__version__} is installed, {sys.argv[1]} is wanted; run setup.sh")
    while line := sys.stdin.readline():
        try:
            report = play(*line.split())
        except Exception as e:  # a scenario's surprise is its report, not the end of the run
            report = {"unexpected": failure(e)}
        print(json.dumps(report), flush=True)


main()
