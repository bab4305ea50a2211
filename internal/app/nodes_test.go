package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// operate reads a path of the admin API as an operator.
func (g *gateway) operate(t *testing.T, key secret.String, path string, out any) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+g.adminAddress(t)+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, out); err != nil {
		t.Fatalf("%s: %d %s: %v", path, resp.StatusCode, body, err)
	}
	return resp.StatusCode
}

// listedNode is a node as the API lists it.
type listedNode struct {
	ID, Name, State, Version, Config string
	This                             bool
	Same                             bool      `json:"same_config"`
	Refused                          time.Time `json:"refused"`
	Ledger                           struct {
		Rows   int64
		Oldest float64 `json:"oldest_seconds"`
	}
}

// TestNodesOfAStore runs two nodes with one database: each lists both, says how their configurations
// differ, shows a refused reload, and learns that the other has stopped.
func TestNodesOfAStore(t *testing.T) {
	up, postgres := upstreamtest.New(t), storetest.Postgres(t)
	up.Answer(echo)
	data := t.TempDir()
	configuration := func(name, more string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nnode: %s\ndata: %q\nstore: { url: %q, peppers: [%q] }\n"+
			"providers: { up: { protocol: openai-chat, base_url: %q, api_key: sk-canary } }\nmodels:\n  m: { targets: [up/m] }\n%s",
			name, data+"/shared", postgres.URL, strings.Repeat("0", 64), up.BaseURL(), more)
	}
	keys := keyringOf(t, configuration("gw-1", ""))
	made, err := keys.Create(t.Context(), access.Record{Name: "auditor", Role: access.Auditor, Created: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	one, other := start(t, configuration("gw-1", ""), quick()), start(t, configuration("gw-2", "  n: { targets: [up/n] }\nretries: { attempts: 1 }\n"), quick())
	same := start(t, configuration("gw-3", ""), quick())
	nodes := func(g *gateway) []listedNode {
		var list struct{ Nodes []listedNode }
		if status := g.operate(t, made.Text, "/nodes", &list); status != http.StatusOK {
			t.Fatalf("the list of nodes: %d", status)
		}
		return list.Nodes
	}
	eventually(t, "three nodes are listed", func() bool { return len(nodes(one)) == 3 && len(nodes(other)) == 3 })
	for i, n := range nodes(one) {
		if n.Name != fmt.Sprint("gw-", i+1) || n.State != "running" || n.Version != "test" || n.This != (i == 0) || n.Same != (i != 1) {
			t.Errorf("node %d is %+v", i, n)
		}
	}
	if !nodes(other)[1].This || nodes(same)[0].This {
		t.Error("a node takes another one for itself")
	}

	var compared struct {
		Text        string
		Differences []struct{ Setting, Here, There string }
	}
	one.operate(t, made.Text, "/nodes/"+nodes(one)[1].ID+"/config", &compared)
	var settings []string
	for _, d := range compared.Differences {
		settings = append(settings, d.Setting)
	}
	if !slices.Equal(settings, []string{"models.n.targets[0].target", "retries.attempts"}) || strings.Contains(compared.Text, "sk-canary") {
		t.Errorf("the differences are %+v", compared)
	}

	var config struct {
		Settings []struct {
			Key, Value, Source string
			Line               int
		}
		Refused *struct {
			At     time.Time
			Errors []struct {
				Line    int
				Message string
			}
		}
	}
	other.write(t, configuration("gw-2", "surprise: 1\n"))
	eventually(t, "the refused reload is shown", func() bool {
		other.operate(t, made.Text, "/config", &config)
		return config.Refused != nil
	})
	if e := config.Refused.Errors; len(e) != 1 || e[0].Line != 9 || time.Since(config.Refused.At) > time.Hour {
		t.Errorf("the refused reload is %+v", config.Refused)
	}
	for _, s := range config.Settings {
		if s.Key == "retries.attempts" && (s.Value != "1" || s.Line != 10) || s.Key == "log.level" && s.Line != 0 || strings.Contains(s.Value, "sk-canary") {
			t.Errorf("the setting is %+v", s)
		}
	}
	other.wait(t)
	if n := nodes(one)[1]; n.State != "stopped" || n.Refused.IsZero() {
		t.Errorf("after the stop: %+v", n)
	}
	same.write(t, configuration("gw-3", "surprise: 1\n"))
	same.log.waitFor(t, "is refused", 1)
	same.write(t, configuration("gw-3", ""))
	same.log.waitFor(t, "configuration loaded", 1)
	config.Refused = nil
	if same.operate(t, made.Text, "/config", &config); config.Refused != nil {
		t.Errorf("after a good reload the refused one is still shown: %+v", config.Refused)
	}
}
