"""Does features with a vendor's SDK for Python.

Reads one feature per line (the API and the feature's name, the base URL, the key, the
model) and writes for each one line of JSON: what the SDK saw. The arguments are the
SDK's package and the version that must be installed.
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
}


def check_version(package, version):
    installed = importlib.metadata.version(package)
    if installed != version:
        sys.exit(f"{package} {installed} is installed, {version} is wanted; run setup.sh")


def main():
    check_version(*sys.argv[1:])
    clients = {}
    while line := sys.stdin.readline():
        try:
            name, base_url, key, model = line.split()
            api, feature = name.split("/")
            module = importlib.import_module(MODULES[api])
            if (api, base_url) not in clients:
                clients[api, base_url] = module.connect(base_url, key)
            report = getattr(module, feature)(clients[api, base_url], model)
        except Exception as e:  # a feature's surprise is its report, not the end of the run
            report = {"unexpected": f"{type(e).__name__}: {e}"}
        print(json.dumps(report), flush=True)


main()
