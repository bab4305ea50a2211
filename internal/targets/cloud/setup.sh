#!/usr/bin/env bash
# Installs the Python libraries and SDKs of the clouds into the folder $1, for `make clouds`.
set -euo pipefail
if [ -x "$1/bin/python" ] && "$1/bin/python" -c 'import botocore, google.auth, azure.identity, jwt, anthropic.lib.bedrock, openai, google.genai, moto.server' 2>/dev/null; then
  exit 0
fi
python3 -m venv "$1"
"$(dirname "$0")/../../../tools/try.sh" PyPI "$1/bin/pip" install --quiet 'boto3==1.44.*' 'google-auth==2.*' 'azure-identity==1.*' cryptography 'anthropic[bedrock,vertex]==2.8.*' 'openai==3.49.*' 'google-genai==3.1.*' 'moto[server]==5.2.*'
