package scale

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// diagnosis is the result of a check.
type diagnosis struct{ Check, Status, Text, Remedy string }

// examined runs `isogloss doctor` with the section usage of a configuration, and returns the results of a check.
func examined(t *testing.T, check, usage string) (list []diagnosis) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "isogloss.yaml")
	text := fmt.Sprintf("store: {url: \"postgres://127.0.0.1:1/none\", peppers: [0123456789012345678901234567890123456789]}\nlisten: \"127.0.0.1:%d\"\nadmin: {listen: \"127.0.0.1:%d\"}\ndata: %s\nusage: {%s}\n%s",
		freePort(t), freePort(t), filepath.Join(dir, "data"), usage, models("http://127.0.0.1:1/v1"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), needs(t, "ISOGLOSS_BINARY"), "doctor", "--json", "-c", path).Output()
	var report struct{ Results []diagnosis }
	if json.Unmarshal(out, &report) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range report.Results {
		if r.Check == check {
			list = append(list, r)
		}
		if strings.Contains(r.Text+r.Remedy, "s3cret") {
			t.Errorf("a password is shown: %+v", r)
		}
	}
	return list
}

// expect waits until the doctor says of a server what it should: the status, and texts of the cause and the remedy.
func expect(t *testing.T, name, check, usage, status string, texts ...string) {
	t.Helper()
	var got []diagnosis
	wanted := func() bool {
		if got = examined(t, check, usage); len(got) != 1 || got[0].Status != status {
			return false
		}
		for _, text := range texts {
			if !strings.Contains(got[0].Text+"\n"+got[0].Remedy, text) {
				return false
			}
		}
		return true
	}
	if testrig.Until(t.Context(), testrig.Patience, "", wanted) != nil {
		t.Errorf("%s: %+v, want %s %q", name, got, status, texts)
		return
	}
	t.Logf("%s: %s %s: %s", name, status, got[0].Text, got[0].Remedy)
}

// TestDoctorKafka runs the doctor against a broker that is well, and in turn with another password, another authority and
// without TLS, and stopped.
func TestDoctorKafka(t *testing.T) {
	needs(t, "ISOGLOSS_KAFKA_LIB")
	dir, other := t.TempDir(), t.TempDir()
	ca, _ := certificate(t, dir)
	foreign, _ := certificate(t, other)
	address, inner, controller := "127.0.0.1:"+strconv.Itoa(freePort(t)), freePort(t), freePort(t)
	broker := startBroker(t, dir, 1, fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%[3]d\nlisteners=CLIENT://%[1]s,INNER://127.0.0.1:%[2]d,CONTROLLER://127.0.0.1:%[3]d\nadvertised.listeners=CLIENT://%[1]s,INNER://127.0.0.1:%[2]d\n"+
		"listener.security.protocol.map=CLIENT:SASL_SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=INNER\nssl.keystore.type=PEM\nssl.keystore.location=%[4]s\noffsets.topic.replication.factor=1\n"+
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\nlistener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_isogloss=\"s3cret\";\n"+
		"listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
		address, inner, controller, filepath.Join(dir, "server.pem")), "--add-scram", "SCRAM-SHA-512=[name=isogloss,password=s3cret]")
	sink := func(more string) string {
		return fmt.Sprintf("sink: {kafka: {brokers: [%q], topic: usage, partitions: 1, replicas: 1, %s}}", address, more)
	}
	trusted := fmt.Sprintf("tls: true, ca: %q, ", ca)
	for _, mechanism := range []string{"plain", "scram-sha-512"} {
		account := func(password string) string {
			return trusted + "mechanism: " + mechanism + ", username: isogloss, password: " + password
		}
		expect(t, mechanism, "usage log", sink(account("s3cret")), "note", "Kafka: 1 server", "does not exist yet")
		expect(t, mechanism+", wrong password", "usage log", sink(account("s3cret-wrong")), "failure", "refuses the user or the password", "usage.sink.kafka.username and password")
	}
	expect(t, "another authority", "usage log", sink(fmt.Sprintf("tls: true, ca: %q, username: isogloss, password: s3cret", foreign)), "failure", "which this machine does not trust", "usage.sink.kafka")
	expect(t, "without TLS", "usage log", sink("username: isogloss, password: s3cret"), "failure", "tls: true")
	broker.kill()
	expect(t, "stopped", "usage log", sink(trusted+"username: isogloss, password: s3cret"), "failure", "the connection is refused", "start the server, or correct usage.sink.kafka.brokers", "usage events wait in the spool")
}

// TestDoctorNATS does the same with a server of NATS.
func TestDoctorNATS(t *testing.T) {
	server := needs(t, "ISOGLOSS_NATS_SERVER")
	dir, other := t.TempDir(), t.TempDir()
	ca, _ := certificate(t, dir)
	foreign, _ := certificate(t, other)
	port := strconv.Itoa(freePort(t))
	pem := filepath.Join(dir, "server.pem")
	broker := start(t, dir, "nats", server, "-js", "-sd", filepath.Join(dir, "data"), "-a", "127.0.0.1", "-p", port, "--user", "isogloss", "--pass", "s3cret", "--tls", "--tlscert", pem, "--tlskey", pem)
	sink := func(scheme, more string) string {
		return fmt.Sprintf("sink: {nats: {servers: [\"%s://127.0.0.1:%s\"], stream: usage, partitions: 1, replicas: 1, %s}}", scheme, port, more)
	}
	trusted := fmt.Sprintf("ca: %q, username: isogloss, password: ", ca)
	expect(t, "healthy", "usage log", sink("tls", trusted+"s3cret"), "note", "NATS: 1 server", "does not exist yet")
	expect(t, "wrong password", "usage log", sink("tls", trusted+"s3cret-wrong"), "failure", "refuses the user or the password", "usage.sink.nats")
	expect(t, "another authority", "usage log", sink("tls", fmt.Sprintf("ca: %q, username: isogloss, password: s3cret", foreign)), "failure", "which this machine does not trust", "usage.sink.nats")
	broker.kill()
	expect(t, "stopped", "usage log", sink("tls", trusted+"s3cret"), "failure", "none of the servers can be reached", "start them, or correct usage.sink.nats.servers")
	start(t, dir, "nats-without", server, "-a", "127.0.0.1", "-p", port)
	expect(t, "without JetStream", "usage log", sink("nats", ""), "failure", "JetStream is not enabled", "jetstream")
}

// TestDoctorClickHouse does the same with the engine of ClickHouse behind TLS and an account, as the server has them.
func TestDoctorClickHouse(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	engine := clickhouse(t, dir)
	target, err := url.Parse(engine.url)
	if err != nil {
		t.Fatal(err)
	}
	ca, _ := certificate(t, dir)
	foreign, _ := certificate(t, other)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.pem"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-ClickHouse-User") != "isogloss" || r.Header.Get("X-ClickHouse-Key") != "s3cret" {
			w.Header().Set("X-ClickHouse-Exception-Code", "516")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "Code: 516. DB::Exception: isogloss: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED) (version 26.3.1.1)\n")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	front.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	front.StartTLS()
	t.Cleanup(front.Close)
	section := func(address, more string) string { return fmt.Sprintf("clickhouse: {url: %q, %s}", address, more) }
	account := func(ca, password string) string {
		return fmt.Sprintf("ca: %q, username: isogloss, password: %s", ca, password)
	}
	sink := "sink: {nats: {servers: [\"nats://127.0.0.1:1\"]}}, "
	expect(t, "healthy", "clickhouse", sink+section(front.URL, account(ca, "s3cret")), "ok", "ClickHouse 2", "a query took")
	expect(t, "wrong password", "clickhouse", sink+section(front.URL, account(ca, "s3cret-wrong")), "failure", "refuses the user or the password", "usage.clickhouse")
	expect(t, "another authority", "clickhouse", sink+section(front.URL, account(foreign, "s3cret")), "failure", "which this machine does not trust", "usage.clickhouse")
	expect(t, "https at a port without TLS", "clickhouse", sink+section(strings.Replace(engine.url, "http:", "https:", 1), ""), "failure", "it does not speak TLS", "write http:// in usage.clickhouse")
	expect(t, "stopped", "clickhouse", sink+section(fmt.Sprintf("http://127.0.0.1:%d", freePort(t)), ""), "failure", "the connection is refused", "start the server, or correct usage.clickhouse")
}
