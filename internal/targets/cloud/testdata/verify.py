"""Verifies what the gateway sent with the vendors' own Python libraries.

Each line of the input is a case. The script prints one line for each case that it does not
accept, and then how many cases it has verified.
"""

import base64
import io
import json
import sys
from urllib.parse import parse_qs, urlsplit

import azure.identity
import google.auth.compute_engine
import google.auth.identity_pool
import google.auth.impersonated_credentials
import google.auth.jwt
import google.auth.transport.requests
import google.oauth2.credentials
import google.oauth2.service_account
import jwt
import requests.adapters
from azure.core.pipeline.transport import RequestsTransport
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


class Issuer(requests.adapters.BaseAdapter):
    """Answers requests for tokens of both vendors and keeps the last one."""

    def send(self, request, **_):
        self.last = request
        url = urlsplit(request.url)
        tenant = "https://login.microsoftonline.com/" + url.path.split("/")[1]
        if url.path.endswith("/openid-configuration"):
            body = {"token_endpoint": tenant + "/oauth2/v2.0/token", "authorization_endpoint": tenant + "/oauth2/v2.0/authorize", "issuer": tenant + "/v2.0"}
        elif url.path.endswith("/service-accounts/default/"):
            body = {"email": "default", "scopes": []}
        elif url.path.endswith(":generateAccessToken"):
            body = {"accessToken": "token", "expireTime": "2099-01-01T00:00:00Z"}
        else:
            body = {"access_token": "token-of-google", "expires_in": 3600, "expires_on": "4070908800", "resource": "r", "token_type": "Bearer",
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
        response = requests.Response()
        response.status_code, response.url, response.request, response.raw = 200, request.url, request, io.BytesIO(json.dumps(body).encode())
        response.headers["Content-Type"] = "application/json"
        return response

    def close(self):
        pass


ISSUER = Issuer()
SESSION = requests.Session()
SESSION.mount("https://", ISSUER)
SESSION.mount("http://", ISSUER)


def google_request(source, case):
    """Makes the request for a token with google-auth."""
    scopes, file = case["scopes"], case.get("file")
    if source == "google user":
        credential = google.oauth2.credentials.Credentials.from_authorized_user_info(file)
    elif source == "google federation":
        with open(file["credential_source"]["file"], "w") as f:
            f.write(case["subject"])
        credential = google.auth.identity_pool.Credentials.from_info(file).with_scopes(scopes)
    elif source == "google metadata":
        credential = google.auth.compute_engine.Credentials(scopes=scopes)
    else:
        credential = google.oauth2.service_account.Credentials.from_service_account_info(file, scopes=scopes)
    if source == "google impersonation":
        delegates = ["projects/-/serviceAccounts/" + d for d in case["delegates"] or []]
        credential = google.auth.impersonated_credentials.Credentials(credential, case["impersonate"], scopes, delegates=delegates, lifetime=3600)
    credential.refresh(google.auth.transport.requests.Request(SESSION))


def azure_request(source, case):
    """Makes the request for a token with azure-identity."""
    transport = RequestsTransport(session=SESSION, session_owner=False)
    who = dict(tenant_id=case["tenant"], client_id=case["client"], transport=transport, authority="https://login.microsoftonline.com", disable_instance_discovery=True)
    if source == "azure client secret":
        credential = azure.identity.ClientSecretCredential(client_secret=case["secret"], **who)
    elif source == "azure certificate":
        credential = azure.identity.CertificateCredential(certificate_data=case["certificate"].encode(), send_certificate_chain=True, **who)
    elif source == "azure workload identity":
        credential = azure.identity.ClientAssertionCredential(func=lambda: case["token"], **who)
    else:
        credential = azure.identity.ManagedIdentityCredential(transport=transport, **({"client_id": case["client"]} if case["client"] else {}))
    credential.get_token(case["scope"])


def parameters(query, body):
    """Returns the members of a query and of a form or a JSON body."""
    if body.startswith("{"):
        return {**parse_qs(query, keep_blank_values=True), **json.loads(body)}
    return parse_qs("&".join(filter(None, (query, body))), keep_blank_values=True)


def google_assertion(token, case):
    """Verifies the assertion of a service account and returns what it says."""
    claims = google.auth.jwt.decode(token, certs=case["public"].encode(), audience="https://oauth2.googleapis.com/token")
    return jwt.get_unverified_header(token), claims["iss"], claims["scope"], claims["exp"] - claims["iat"]


def azure_assertion(token, case):
    """Verifies the assertion of a certificate and its thumbprint, and returns what it says."""
    certificate = x509.load_pem_x509_certificate(case["certificate"].encode())
    header = jwt.get_unverified_header(token)
    claims = jwt.decode(token, certificate.public_key(), algorithms=["RS256", "PS256"], audience="https://login.microsoftonline.com/%s/oauth2/v2.0/token" % case["tenant"])
    thumbprints = {name: base64.urlsafe_b64encode(certificate.fingerprint(hash)).rstrip(b"=").decode() for name, hash in (("x5t", hashes.SHA1()), ("x5t#S256", hashes.SHA256()))}
    sent = {name: header[name].rstrip("=").replace("+", "-").replace("/", "_") for name in thumbprints if name in header}
    if not sent or not sent.items() <= thumbprints.items():
        raise ValueError("the header %s of a certificate with %s" % (header, thumbprints))
    return [base64.b64decode(c) for c in header["x5c"]], claims["iss"], claims["sub"]


ASSERTIONS = {"google service account": ("assertion", google_assertion), "azure certificate": ("client_assertion", azure_assertion)}
OPENID = {"openid", "profile", "offline_access"}  # Go's library adds them; without a user they have no effect
# Telemetry, and a request for the user's name, which a client of its own does not have.
UNUSED = {"client_info", "x-client-sku", "x-client-ver", "x-client-os", "x-client-cpu", "x-app-name", "x-app-ver"}


def token_request(case):
    """Compares a request for a token with the one of the second implementation."""
    source, settings, arrived = case["source"], case["settings"], case["arrived"]
    (google_request if source.startswith("google") else azure_request)(source, settings)
    want, url = ISSUER.last, urlsplit(ISSUER.last.url)
    body = want.body or ""
    theirs = parameters(url.query, body if isinstance(body, str) else body.decode())
    ours = parameters(arrived["query"], arrived["body"])
    if source in ASSERTIONS:
        name, read = ASSERTIONS[source]
        ours[name], theirs[name] = (read(p[name][0], settings) for p in (ours, theirs))
    for p in (ours, theirs):
        for name in UNUSED & set(p):
            del p[name]
        if "scope" in p:
            p["scope"] = sorted(set(" ".join(p["scope"]).split()) - OPENID)
    where = [arrived["method"], arrived["host"], arrived["path"]], [want.method, url.netloc.replace("metadata.google.internal", "169.254.169.254"), url.path]
    if where[0] != where[1]:
        return "%s: a request to %s, want %s" % (source, *where)
    if ours != theirs:
        return "%s: %s, want %s" % (source, ours, theirs)
    for name in ("Metadata", "Metadata-Flavor", "Authorization"):
        if want.headers.get(name, "").lower() != arrived["headers"].get(name, [""])[0].lower():
            return "%s: the header %s" % (source, name)
    return ""


KINDS = {"sigv4": sigv4, "token": token_request}
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
