package deploytest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write deploy/kubernetes and deploy/compose/isogloss.yaml from the chart; needs helm")

const chart = "deploy/helm/isogloss"

// manifests are the files of deploy/kubernetes with the values that they are rendered from.
var manifests = map[string]string{"isogloss.yaml": "environment", "isogloss-stores.yaml": "stores"}

// serviceMonitor has the members of the Prometheus operator's type that the chart uses.
type serviceMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// objects are the rendered objects by kind. The Service for metrics is Service/metrics.
type objects map[string]any

// component is the label that tells the Services apart.
const component = "app.kubernetes.io/component"

// decode reads every object of a stream strictly into its type: an unknown or repeated
// member is an error.
func decode(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	for part := range strings.SplitSeq("\n"+text, "\n---") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(part), &kind); err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		if kind.Kind == "" {
			continue // comments only
		}
		into := map[string]any{
			"v1/ConfigMap": &core.ConfigMap{}, "v1/Service": &core.Service{}, "v1/ServiceAccount": &core.ServiceAccount{},
			"apps/v1/Deployment": &apps.Deployment{}, "apps/v1/StatefulSet": &apps.StatefulSet{},
			"policy/v1/PodDisruptionBudget": &policy.PodDisruptionBudget{}, "autoscaling/v2/HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
			"networking.k8s.io/v1/NetworkPolicy": &networking.NetworkPolicy{}, "networking.k8s.io/v1/Ingress": &networking.Ingress{},
			"monitoring.coreos.com/v1/ServiceMonitor": &serviceMonitor{},
		}[kind.APIVersion+"/"+kind.Kind]
		if into == nil {
			t.Fatalf("no type for %s/%s", kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(part), into); err != nil {
			t.Fatalf("%s: %v:\n%s", kind.Kind, err, part)
		}
		name := kind.Kind
		if service, ok := into.(*core.Service); ok && service.Labels[component] != "" {
			name += "/" + service.Labels[component]
		}
		if all[name] != nil {
			t.Fatalf("two objects of kind %s", name)
		}
		all[name] = into
	}
	return all
}

// pods returns the pod template of the workload and its labels.
func (o objects) pods(t *testing.T) *core.PodTemplateSpec {
	t.Helper()
	var pods *core.PodTemplateSpec
	var selector *meta.LabelSelector
	switch w := cmpOr(o["Deployment"], o["StatefulSet"]).(type) {
	case *apps.Deployment:
		pods, selector = &w.Spec.Template, w.Spec.Selector
	case *apps.StatefulSet:
		pods, selector = &w.Spec.Template, w.Spec.Selector
	default:
		t.Fatal("no workload")
	}
	for key, value := range selector.MatchLabels {
		if pods.Labels[key] != value {
			t.Errorf("the selector %s=%s does not match the pods", key, value)
		}
	}
	for _, name := range []string{"Service", "Service/metrics", "Service/admin"} {
		if o[name] == nil && name == "Service/admin" {
			continue
		}
		if service, ok := o[name].(*core.Service); !ok || !reflect.DeepEqual(service.Spec.Selector, selector.MatchLabels) {
			t.Errorf("the %s does not select the pods", name)
		}
	}
	return pods
}

func cmpOr(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

// checkObjects checks the rules that every rendering keeps: the grace period covers the
// drain, the pod is confined, its probes have ports, secrets are references, and the
// configuration passes `isogloss check`.
func checkObjects(t *testing.T, o objects) {
	t.Helper()
	pods := o.pods(t)
	container := pods.Spec.Containers[0]
	checkServices(t, o)
	drain, err := time.ParseDuration(variable(container, "ISOGLOSS_SHUTDOWN_DRAIN").Value)
	if err != nil {
		t.Error(err)
	}
	// The gateway needs its notice, the drain and two seconds after preStop.
	needed := drain + time.Duration(container.Lifecycle.PreStop.Sleep.Seconds)*time.Second + 3*time.Second
	if grace := time.Duration(*pods.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= needed || grace > needed+30*time.Second {
		t.Errorf("the grace period is %s for a shutdown of %s", grace, needed)
	}
	ports := map[string]bool{}
	for _, p := range container.Ports {
		ports[p.Name] = true
	}
	for _, probe := range []*core.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe == nil || !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("the probe %v has no port of %v", probe, ports)
		}
	}
	s, p := container.SecurityContext, pods.Spec.SecurityContext
	if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !*p.RunAsNonRoot || *p.RunAsUser != imageUser || len(s.Capabilities.Drop) == 0 {
		t.Errorf("the pod is not confined: %v %v", s, p)
	}
	if scaler, ok := o["HorizontalPodAutoscaler"].(*autoscaling.HorizontalPodAutoscaler); ok {
		if name := scaler.Spec.Metrics[0].Pods.Metric.Name; name != "isogloss_requests_open" {
			t.Errorf("the autoscaler reads %s", name)
		}
	}
	if config, ok := o["ConfigMap"].(*core.ConfigMap); ok {
		checkConfiguration(t, config.Data["isogloss.yaml"])
	}
}

// checkServices checks that a Service that may become a load balancer has the client port only, and that Prometheus
// finds the one with the metrics, which stays in the cluster.
func checkServices(t *testing.T, o objects) {
	t.Helper()
	clients, metrics := o["Service"].(*core.Service), o["Service/metrics"].(*core.Service)
	if p := clients.Spec.Ports; len(p) != 1 || p[0].TargetPort.StrVal != "http" {
		t.Errorf("the Service for clients has the ports %v", p)
	}
	if p := metrics.Spec.Ports; metrics.Spec.Type != core.ServiceTypeClusterIP || len(p) != 1 || p[0].Name != "metrics" || p[0].TargetPort.StrVal != "metrics" || clients.Name == metrics.Name {
		t.Errorf("the Service for metrics is %v", metrics.Spec)
	}
	checkAdmin(t, o)
	monitor, ok := o["ServiceMonitor"].(*serviceMonitor)
	if !ok {
		return
	}
	matches := func(s *core.Service) bool {
		for key, value := range monitor.Spec.Selector.MatchLabels {
			if s.Labels[key] != value {
				return false
			}
		}
		return true
	}
	if matches(clients) || !matches(metrics) || monitor.Spec.Endpoints[0].Port != metrics.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor selects %v", monitor.Spec)
	}
}

// checkAdmin checks that the console is on loopback, or has the certificate of a Secret: then it may have a Service of
// its own, which only the cluster reaches.
func checkAdmin(t *testing.T, o objects) {
	t.Helper()
	pods := o.pods(t)
	container := pods.Spec.Containers[0]
	var certificate string
	for _, v := range pods.Spec.Volumes {
		if v.Name == "admin" {
			certificate = v.Secret.SecretName
		}
	}
	mounted := slices.ContainsFunc(container.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "admin" && m.MountPath == adminFolder })
	open := slices.ContainsFunc(container.Ports, func(p core.ContainerPort) bool { return p.Name == "admin" && p.ContainerPort == 8081 })
	config, _ := o["ConfigMap"].(*core.ConfigMap)
	listens := config != nil && strings.Contains(config.Data["isogloss.yaml"], "listen: :8081") && strings.Contains(config.Data["isogloss.yaml"], adminFolder+"/tls.crt")
	if has := certificate != ""; mounted != has || open != has || listens != has {
		t.Errorf("with the certificate %q: it is mounted: %v, the port is open: %v, the file has it: %v", certificate, mounted, open, listens)
	}
	if service, ok := o["Service/admin"].(*core.Service); ok {
		if p := service.Spec.Ports; certificate == "" || service.Spec.Type != core.ServiceTypeClusterIP || len(p) != 1 || p[0].TargetPort.StrVal != "admin" {
			t.Errorf("the Service for the console is %v", service.Spec)
		}
	}
}

// adminFolder has the certificate of the admin port in containers.
const adminFolder = "/etc/isogloss-admin"

func variable(c core.Container, name string) core.EnvVar {
	i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return core.EnvVar{}
	}
	return c.Env[i]
}

// clusterEnvironment has values for the variables that configurations refer to.
var clusterEnvironment = []string{
	"OPENAI_API_KEY=" + vendorKey, "ISOGLOSS_KEYS=" + clientKey, "NODE=one", "PEPPER=0123456789abcdef0123456789abcdef",
	"POSTGRES_URL=postgres://isogloss:secret@db:5432/isogloss", "REDIS_URL=redis://cache:6379",
}

// checkConfiguration runs `isogloss check` on a configuration.
func checkConfiguration(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, adminFolder) {
		text = strings.ReplaceAll(text, adminFolder, composeCertificate(t, t.TempDir()))
	}
	file := filepath.Join(t.TempDir(), "isogloss.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary(t), "check", "-c", file)
	cmd.Env = slices.Concat(clusterEnvironment, []string{"ISOGLOSS_LISTEN=:8080", "ISOGLOSS_METRICS_LISTEN=:9090"})
	run(t, cmd)
}

// helm returns the output of a Helm command.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		home, _ := os.UserHomeDir()
		path = filepath.Join(home, "go/bin/helm")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("ISOGLOSS_TEST_HELM") != "" {
			t.Fatal(err)
		}
		t.Skip("Helm is not installed; `make test-chart` installs it")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = root
	return run(t, cmd)
}

// TestChart lints and renders the chart with every file of values.
func TestChart(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, chart, "ci/*-values.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), "-values.yaml"), func(t *testing.T) {
			values := filepath.Join(chart, "ci", filepath.Base(file))
			helm(t, "lint", "--strict", chart, "--values", values)
			checkObjects(t, decode(t, helm(t, "template", "isogloss", chart, "--values", values)))
		})
	}
	t.Run("every kind is rendered", func(t *testing.T) {
		kinds := map[string]bool{}
		for _, file := range files {
			o := decode(t, helm(t, "template", "isogloss", chart, "--values", filepath.Join(chart, "ci", filepath.Base(file))))
			for kind := range maps.Keys(o) {
				kinds[kind] = true
			}
		}
		if len(kinds) != 12 {
			t.Errorf("the kinds are %v", slices.Sorted(maps.Keys(kinds)))
		}
	})
	t.Run("refuses", func(t *testing.T) {
		helm(t, "version")
		for _, set := range []string{"drain=long", "replcas=2", "config.listen=:1", "data.size=big", "secrets={Not A Name}", "admin.service.enabled=true", "admin.tlsSecret=x", "admin.port=1"} {
			home, _ := os.UserHomeDir()
			cmd := exec.Command("sh", "-c", `PATH="$PATH:`+home+`/go/bin" helm template isogloss `+chart+` --set '`+set+`'`)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("%s is accepted: %s", set, out)
			}
		}
	})
}

// TestChartServes does what a cluster does with the two commands of docs/install.md: it
// makes the Secret, renders the chart and runs the container's command with the
// container's environment.
func TestChartServes(t *testing.T) {
	t.Parallel()
	serveManifest(t, helm(t, "template", "isogloss", chart, "--set", "secrets={isogloss-keys}"))
}

// TestManifestServes does the same with the plain manifest.
func TestManifestServes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/kubernetes/isogloss.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	serveManifest(t, string(text))
}

func serveManifest(t *testing.T, text string) {
	t.Helper()
	env, _ := startVendor(t, nil)
	secrets := map[string][]string{"isogloss-keys": append(env, "ISOGLOSS_KEYS="+clientKey)}
	addresses, err := testrig.Addresses(3)
	if err != nil {
		t.Fatal(err)
	}
	c := decode(t, text).pods(t).Spec.Containers[0]
	cmd := exec.Command(binary(t), c.Args...)
	// The image has the first two variables. Ports and folders are those of this machine.
	for _, e := range c.Env {
		switch e.Name {
		case "ISOGLOSS_LISTEN":
			e.Value = ":" + strings.TrimPrefix(addresses[0], "127.0.0.1:")
		case "ISOGLOSS_METRICS_LISTEN":
			e.Value = addresses[1]
		case "ISOGLOSS_DATA":
			e.Value = t.TempDir()
		}
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, "ISOGLOSS_ADMIN_LISTEN="+addresses[2])
	for _, from := range c.EnvFrom {
		cmd.Env = append(cmd.Env, secrets[from.SecretRef.Name]...)
	}
	cmd.Dir = t.TempDir()
	p := launch(t, cmd)
	ask(t, "http://"+addresses[0], clientKey, p.ended)
	for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if page := testrig.Page(t.Context(), "http://"+addresses[1]+probe.HTTPGet.Path); page == "" || strings.Contains(page, "not found") {
			t.Errorf("the probe %s gets %q", probe.HTTPGet.Path, page)
		}
	}
	if page := testrig.Page(t.Context(), "http://"+addresses[1]+"/metrics"); !strings.Contains(page, `isogloss_requests_open{state="open"}`) {
		t.Error("the autoscaler's metric is missing")
	}
	p.stop(cmd.Process.Pid)
}

// TestManifests checks the plain manifests and the configuration of the compose file, and
// that they come from the present chart.
func TestManifests(t *testing.T) {
	sum := chartSum(t)
	for name, values := range manifests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, "deploy/kubernetes", name)
			if *update {
				text := helm(t, "template", "isogloss", chart, "--values", filepath.Join(chart, "ci", values+"-values.yaml"), "--set", "image.tag=latest")
				text = strings.ReplaceAll(text, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
				write(t, path, "# Rendered from "+chart+" with ci/"+values+"-values.yaml by `make manifests`; do not edit.\n# chart "+sum+"\n"+text)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "# chart "+sum+"\n") {
				t.Errorf("%s is from another version of the chart; run `make manifests`", name)
			}
			checkObjects(t, decode(t, string(text)))
		})
	}
	t.Run("compose", func(t *testing.T) {
		values, err := os.ReadFile(filepath.Join(root, chart, "ci/stores-values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var read struct{ Config any }
		if err := yaml.Unmarshal(values, &read); err != nil {
			t.Fatal(err)
		}
		config, ok := read.Config.(map[string]any)
		if !ok {
			t.Fatal(read.Config)
		}
		config["admin"] = map[string]any{"listen": ":8081", "tls": map[string]any{"cert": adminFolder + "/tls.crt", "key": adminFolder + "/tls.key"}}
		want, err := yaml.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, "deploy/compose/isogloss.yaml")
		want = append([]byte("# The configuration of the chart with ci/stores-values.yaml, written by `make manifests`.\n"), want...)
		if *update {
			write(t, path, string(want))
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(text, want) {
			t.Errorf("deploy/compose/isogloss.yaml is not the chart's configuration; run `make manifests` (%v)", err)
		}
		checkConfiguration(t, string(text))
	})
}

// chartSum returns a hash of the chart's files.
func chartSum(t *testing.T) string {
	t.Helper()
	hash := sha256.New()
	err := filepath.WalkDir(filepath.Join(root, chart), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, relative := filepath.Rel(filepath.Join(root, chart), path)
		fmt.Fprintln(hash, filepath.ToSlash(name), strconv.Itoa(len(text)))
		_, _ = hash.Write(text) // never fails
		return errors.Join(err, relative)
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
