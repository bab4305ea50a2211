"""Does features with vendors' SDKs or with frameworks for Python.

Reads one feature per line (the API and the feature's name, the base URL, the key, the
model) and writes for each one line of JSON: what the SDK saw. A framework's API has the
framework's name before it: langchain+openai-chat. The arguments are packages, each with
the version that must be installed.
"""

import importlib
import importlib.metadata
import json
import sys

MODULES = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic_messages",
    "gemini": "gemini_generate",
    "converse": "bedrock_converse",
    "langchain": "langchain_chat",
    "openai-agents": "openai_agents",
    "pydantic-ai": "pydantic_agent",
}


def check_version(package, version):
    installed = importlib.metadata.version(package)
    if installed != version:
        sys.exit(f"{package} {installed} is installed, {version} is wanted; run setup.sh")


def main():
    for package, version in zip(sys.argv[1::2], sys.argv[2::2]):
        check_version(package, version)
    clients = {}
    while line := sys.stdin.readline():
        try:
            name, base_url, key, model = line.split()
            api, feature = name.split("/")
            module_name, *within = api.split("+")
            module = importlib.import_module(MODULES[module_name])
            if (api, base_url) not in clients:
                clients[api, base_url] = module.connect(base_url, key, *within)
            report = getattr(module, feature)(clients[api, base_url], model)
        except Exception as e:  # a feature's surprise is its report, not the end of the run
            report = {"unexpected": f"{type(e).__name__}: {e}"}
        print(json.dumps(report), flush=True)


main()
