package sdks

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// converseSurfaces are AWS's SDKs with the Converse API. They send a key over HTTPS only, so
// TLS ends before the gateway.
func converseSurfaces() []*surface {
	row := func(language, sdk, version, cut string, classes map[int]string, needs string, start func(t *testing.T, ca string) rig.Client) *surface {
		return &surface{language: language, sdk: sdk, version: version, dialect: "converse", cut: cut, classes: classes, needs: needs, overTLS: start}
	}
	own := map[int]string{404: "ResourceNotFoundException", 429: "ThrottlingException"}
	const https = "HTTPS, and the key as `AWS_BEARER_TOKEN_BEDROCK`"
	inGo := row("go", "github.com/aws/aws-sdk-go-v2/service/bedrockruntime", "1.63.9", "ModelStreamErrorException", own, https, func(t *testing.T, ca string) rig.Client {
		return goClient{gosdk.Converse, trust(t, ca)}
	})
	inGo.unnoticed = true // a connection that is closed between two frames ends the events without an error
	return []*surface{
		inGo,
		row("python", "boto3", "1.44.5", "EventStreamError", own, https, func(t *testing.T, ca string) rig.Client {
			python := filepath.Join(rig.Cache(t), "python-newest", "bin", "python")
			return rig.StartProcessWith(t, []string{"AWS_CA_BUNDLE=" + ca}, "python", python, "matrix/client.py", "boto3", "1.44.5")
		}),
		row("node", "@aws-sdk/client-bedrock-runtime", "3.1162.0", "ModelStreamErrorException", own, https+"; a `requestHandler` for HTTP/1.1 where TLS ends at a proxy without HTTP/2", func(t *testing.T, ca string) rig.Client {
			return rig.StartNodeTrusting(t, ca, "matrix/*.mjs", "@aws-sdk/client-bedrock-runtime", "3.1162.0")
		}),
	}
}

// trust returns the settings of a client that trusts a certificate.
func trust(t *testing.T, ca string) *tls.Config {
	t.Helper()
	certificate, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
