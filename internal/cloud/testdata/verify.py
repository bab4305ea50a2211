"""Verifies what the gateway sent with the vendors' own Python libraries.

Each line of the input is a case. The script prints one line for each case that it does not
accept, and then how many cases it has verified.
"""

import base64
import json
import sys

import google.auth.jwt
import jwt
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes


def sigv4(case):
    """Computes the signature again from what arrived, as the service would."""
    headers = {}
    for name, value in case["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    fields = dict(part.strip().split("=", 1) for part in headers["authorization"][0].split(" ", 1)[1].split(","))
    signed = fields["SignedHeaders"].split(";")
    unsigned = set(headers) - set(signed) - {"authorization", "user-agent", "traceparent"}
    if unsigned:
        return "headers without a signature: %s" % unsigned
    _, date, region, service, _ = fields["Credential"].split("/")
    request = AWSRequest(method=case["method"], url="http://" + case["host"] + case["uri"], data=base64.b64decode(case["body"]))
    for name in signed:
        for value in headers[name]:
            request.headers.add_header(name, value)
    request.context["timestamp"] = headers["x-amz-date"][0]
    auth = SigV4Auth(Credentials(case["key"], case["secret"], case["session"]), service, region)
    canonical = auth.canonical_request(request)
    want = auth.signature(auth.string_to_sign(request, canonical), request)
    if want != fields["Signature"]:
        return "botocore has another signature for\n%s" % canonical
    if case["session"] and headers["x-amz-security-token"] != [case["session"]]:
        return "the session token is missing"
    return ""


def google_assertion(case):
    """Verifies the assertion of a service account."""
    claims = google.auth.jwt.decode(case["assertion"], certs=case["public"].encode(), audience=case["audience"])
    return "" if claims["iss"] == case["issuer"] and claims["scope"] == case["scope"] else "claims %s" % claims


def azure_assertion(case):
    """Verifies the assertion of a certificate and its thumbprint."""
    certificate = x509.load_pem_x509_certificate(case["certificate"].encode())
    header = jwt.get_unverified_header(case["assertion"])
    claims = jwt.decode(case["assertion"], certificate.public_key(), algorithms=["RS256", "PS256"], audience=case["audience"])
    thumbprint = base64.urlsafe_b64encode(certificate.fingerprint(hashes.SHA256())).rstrip(b"=").decode()
    sent = header.get("x5t#S256", "").rstrip("=").replace("+", "-").replace("/", "_")
    if sent != thumbprint:
        return "header %s, thumbprint %s" % (header, thumbprint)
    return "" if claims["iss"] == claims["sub"] == case["issuer"] else "claims %s" % claims


KINDS = {"sigv4": sigv4, "google": google_assertion, "azure": azure_assertion}
verified = 0
for number, line in enumerate(sys.stdin, 1):
    case = json.loads(line)
    try:
        problem = KINDS[case["kind"]](case)
    except Exception as error:  # a case that cannot be read is not verified
        problem = repr(error)
    if problem:
        print("case %d: %s" % (number, problem))
    else:
        verified += 1
print("verified %d" % verified)
