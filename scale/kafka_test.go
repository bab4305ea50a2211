package scale

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crypto "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// kafkaServers are three brokers that are controllers too.
type kafkaServers struct {
	t         *testing.T
	brokers   []*process
	addresses []string
	sink      string // setting of the gateway
	dice      *rand.Rand
}

func startKafka(t *testing.T, dir string) *kafkaServers {
	t.Helper()
	k := &kafkaServers{t: t, dice: rand.New(rand.NewPCG(2, 2))}
	var controllers, voters, quoted []string
	for i := range 3 {
		controllers = append(controllers, strconv.Itoa(freePort(t)))
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%s", i+1, controllers[i]))
		k.addresses = append(k.addresses, "127.0.0.1:"+strconv.Itoa(freePort(t)))
		quoted = append(quoted, strconv.Quote(k.addresses[i]))
	}
	for i := range 3 {
		k.brokers = append(k.brokers, startBroker(t, dir, i+1, fmt.Sprintf("controller.quorum.voters=%s\nlisteners=PLAINTEXT://%[2]s,CONTROLLER://127.0.0.1:%[3]s\nadvertised.listeners=PLAINTEXT://%[2]s\n"+
			"min.insync.replicas=2\ndefault.replication.factor=3\noffsets.topic.replication.factor=3\n", strings.Join(voters, ","), k.addresses[i], controllers[i])))
	}
	k.sink = fmt.Sprintf("kafka: {brokers: [%s], topic: usage, partitions: %d, replicas: 3}", strings.Join(quoted, ", "), partitions)
	return k
}

// startBroker starts a broker with settings. The arguments are those of its formatter.
func startBroker(t *testing.T, dir string, id int, settings string, args ...string) *process {
	t.Helper()
	lib := needs(t, "ISOGLOSS_KAFKA_LIB")
	name := fmt.Sprint("kafka-", id)
	path := filepath.Join(dir, name+".properties")
	text := fmt.Sprintf("process.roles=broker,controller\nnode.id=%d\ncontroller.listener.names=CONTROLLER\nlog.dirs=%s\nauto.create.topics.enable=false\n", id, filepath.Join(dir, "data-"+name)) + settings
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	format := exec.CommandContext(t.Context(), "java", append([]string{"-Xmx128m", "-cp", lib + "/*", "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", path}, args...)...)
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return start(t, dir, name, "java", "-Xmx256m", "-cp", lib+"/*", "kafka.Kafka", path)
}

// reassign moves every partition to two or three of the brokers in another order. The first one leads.
func (k *kafkaServers) reassign() {
	c, err := kgo.NewClient(kgo.SeedBrokers(k.addresses...))
	if err != nil {
		k.t.Error(err)
		return
	}
	defer c.Close()
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.TimeoutMillis = 10_000
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = "usage"
	for p := range int32(partitions) {
		one := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		one.Partition = p
		for _, i := range k.dice.Perm(3)[:2+k.dice.IntN(2)] {
			one.Replicas = append(one.Replicas, int32(i+1))
		}
		topic.Partitions = append(topic.Partitions, one)
	}
	r.Topics = append(r.Topics, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	response, err := r.RequestWith(ctx, c)
	if err != nil || response.ErrorCode != 0 {
		k.t.Log("partitions are not reassigned: ", err)
		return
	}
	k.t.Log("partitions reassigned")
}

// TestKafkaAuth reads and writes with SASL over TLS, and starts a consumer with the settings of a configuration.
func TestKafkaAuth(t *testing.T) {
	needs(t, "ISOGLOSS_KAFKA_LIB")
	dir := t.TempDir()
	ca, pool := certificate(t, dir)
	address, inner, controller := "127.0.0.1:"+strconv.Itoa(freePort(t)), freePort(t), freePort(t)
	startBroker(t, dir, 1, fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%[3]d\nlisteners=CLIENT://%[1]s,INNER://127.0.0.1:%[2]d,CONTROLLER://127.0.0.1:%[3]d\nadvertised.listeners=CLIENT://%[1]s,INNER://127.0.0.1:%[2]d\n"+
		"listener.security.protocol.map=CLIENT:SASL_SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=INNER\nssl.keystore.type=PEM\nssl.keystore.location=%[4]s\noffsets.topic.replication.factor=1\n"+
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\nlistener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_isogloss=\"secret\";\n"+
		"listener.name.client.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\nlistener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
		address, inner, controller, filepath.Join(dir, "server.pem")),
		"--add-scram", "SCRAM-SHA-256=[name=isogloss,password=secret]", "--add-scram", "SCRAM-SHA-512=[name=isogloss,password=secret]")
	trusted := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	options := func(mechanism string, password secret.String) kafka.Settings {
		return kafka.Settings{Brokers: []string{address}, Topic: mechanism, Partitions: 1, Replicas: 1, Mechanism: mechanism, Username: "isogloss", Password: password}
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		if err := tryKafka(t, options(mechanism, "secret"), trusted, time.Minute); err != nil {
			t.Errorf("%s: %v", mechanism, err)
		}
		if err := tryKafka(t, options(mechanism, "wrong"), trusted, 3*time.Second); err == nil {
			t.Errorf("%s accepts a wrong password", mechanism)
		}
	}
	if err := tryKafka(t, options("plain", "secret"), &tls.Config{MinVersion: tls.VersionTLS12}, 3*time.Second); err == nil {
		t.Error("a certificate that is not trusted is accepted")
	}

	config, probe := filepath.Join(dir, "isogloss.yaml"), "127.0.0.1:"+strconv.Itoa(freePort(t))
	text := fmt.Sprintf("store: {url: %q, peppers: [0123456789012345678901234567890123456789]}\nusage: {sink: {kafka: {brokers: [%q], topic: usage, partitions: 1, replicas: 1, tls: true, ca: %q, username: isogloss, password: secret}}}\n%s",
		storetest.Postgres(t).URL, address, ca, models("http://127.0.0.1:1/v1"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir, "consumer", needs(t, "ISOGLOSS_BINARY"), "consume", "-c", config, "--listen", probe)
	if err := testrig.Until(t.Context(), testrig.Patience, "", func() bool { return ask(t, "http://"+probe+"/ready", "") == "ok" }); err != nil {
		out, _ := os.ReadFile(c.log)
		t.Fatalf("the consumer is not ready: %s; %s", ask(t, "http://"+probe+"/ready", ""), out)
	}
}

// tryKafka writes a message and reads it, within a time.
func tryKafka(t *testing.T, o kafka.Settings, c *tls.Config, within time.Duration) error {
	t.Helper()
	l, err := kafka.New(o, c)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if timeout := testrig.Until(ctx, within, "", func() bool { err = l.Create(ctx); return err == nil }); timeout != nil {
		return errors.Join(timeout, err)
	}
	if err := l.Produce(ctx, []usagelog.Message{{Name: usagelog.Name{Log: "l", To: 1}, Body: []byte("{}\n")}}); err != nil {
		return err
	}
	r, err := l.Open(ctx, 0, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		if list, err := r.Read(ctx); err != nil || len(list) > 0 {
			return err
		}
	}
	return ctx.Err()
}

// certificate writes a certificate of 127.0.0.1 with its key into server.pem, and returns its file and its pool.
func certificate(t *testing.T, dir string) (ca string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crypto.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(crypto.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	ca = filepath.Join(dir, "ca.pem")
	for path, text := range map[string][]byte{ca: public, filepath.Join(dir, "server.pem"): append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), public...)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return ca, pool
}
