package isogloss

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipe is a recipe of docs/architecture.md as a test follows it.
type recipe struct {
	title    string // its first words in the page
	edits    []edit
	commands []string // the last ones show that the recipe is complete
	needs    string   // a path without which the recipe cannot be followed on this machine
}

// edit puts text before the first place of a file that reads like before; a file that does not exist is created with it.
type edit struct{ file, before, text string }

// sibling is a dialect like Gemini, with another name and other paths.
const sibling = `cp -r protocol/gemini protocol/sibling
find protocol/sibling -name '*.go' -exec sed -i 's/^package gemini/package sibling/; s/protocol\.Gemini/protocol.Sibling/; s/v1beta/v1sibling/; s/v1\//v2sibling\//' {} +`

var recipes = []recipe{
	{
		title: "A preset",
		edits: []edit{{"internal/targets/provider/catalog.go", "\t\t{Name: \"anthropic\", Title:", `		{Name: "example-vendor", Title: "Example", Protocol: protocol.OpenAIChat, BaseURL: "https://api.example.com/v1",
			EnvKey: "EXAMPLE_VENDOR_API_KEY", Auth: Bearer, UpstreamStream: Mirror, Extensions: RefuseExtensions,
			Docs: "https://example.com/docs"},
`}},
		commands: []string{
			"go test ./internal/config -run TestReference -update",
			"go test ./internal/config ./internal/targets/provider",
			"grep -q example-vendor docs/configuration.md docs/isogloss.schema.json",
		},
	},
	{
		title: "A dialect",
		edits: []edit{
			{"protocol/protocol.go", "\tConverse        Name =", "\tSibling Name = \"sibling\"\n"},
			{"protocol/all/all.go", "\t\tbedrock,\n", "\t\tsibling.Dialect(),\n"},
			{"protocol/all/all.go", "\t\"github.com/isogloss-gateway/isogloss/protocol/rerank\"", "\t\"github.com/isogloss-gateway/isogloss/protocol/sibling\"\n"},
			{"arch_test.go", "\"protocol/completions\", \"protocol/converse\"", "\"protocol/sibling\", "},
			{"arch_test.go", "\t\"protocol/rerank\":", "\t\"protocol/sibling\": {\"protocol\", \"protocol/wire\", \"llm\", \"sse\"},\n"},
		},
		commands: []string{sibling, "gofmt -w arch_test.go protocol", "go vet ./protocol/sibling ./protocol/all ./internal/edge/ingress", "go test ./internal/edge/ingress", "go test . -run 'ImportsPointOneWay|InternalNamesNoDialect|EveryPackage'"},
	},
	{
		title: "An operation of the admin API",
		edits: []edit{
			{"internal/api/admin/routes.go", "\t\thandle(\"list-keys\"", "\t\thandle(\"get-version\", get, \"/version\", \"Show the version\", s.getVersion),\n"},
			{"internal/api/admin/roles.go", "\t\"list-keys\":", "\t\"get-version\": {allRoles, noScope},\n"},
			{"internal/api/admin/gateway.go", "// Target is the state of a target.", "type versionView struct {\n\tVersion string `json:\"version\" doc:\"Version of the gateway.\"`\n}\n\nfunc (s *server) getVersion(context.Context, *call, *noInput) (*versionView, error) {\n\treturn &versionView{}, nil\n}\n\n"},
		},
		commands: []string{"gofmt -w internal/api/admin/roles.go", "go test ./internal/api/admin -run 'ConsoleSchema|TableIsComplete|Page' -update", "go test ./internal/api/admin -run 'ConsoleSchema|TableIsComplete|Page'", "grep -q get-version docs/admin-api.md console/src/api/schema.json"},
	},
	{
		title: "A metric",
		edits: []edit{
			{"internal/base/observe/metrics.go", "\tbuild := gauge(\"build_info\"", "\texample := gauge(\"example\", \"An example.\")\n\texample.WithLabelValues().Set(1)\n\tm.registry.MustRegister(example)\n"},
			{"docs/observability.md", "| `isogloss_config_last_reload_success_timestamp_seconds`", "| `isogloss_example` | gauge | | an example |\n"},
		},
		commands: []string{"go test ./internal/base/observe"},
	},
	{
		title: "A unit of usage",
		edits: []edit{
			{"llm/unit.go", "}\n\n// Indexes in Units of the units without a field.", "\tExamples - FieldCount: {Name: \"examples\", Key: \"ex\", Label: \"Examples\", Piece: true},\n"},
			{"llm/unit.go", ")\n\n// FieldCount is the number", "\tExamples // an example\n"},
		},
		commands: []string{"gofmt -w llm/unit.go", "go test ./llm ./internal/money/usage ./internal/money/spool -run 'Unit|Usage|Record|Bytes'", "go test ./internal/app -run TestEveryFieldArrives"},
	},
	{
		title: "A page of the console",
		needs: "console/node_modules",
		edits: []edit{
			{"console/src/pages/example.tsx", "", "import { PageHead } from '../ui/parts';\n\nexport function ExamplePage() {\n  return <PageHead title=\"Example\" />;\n}\n"},
			{"console/src/app.tsx", "import { UsagePage }", "import { ExamplePage } from './pages/example';\n"},
			{"console/src/app.tsx", "  { to: '/console/audit'", "  { to: '/console/example', title: 'Example', needs: 'whoami' },\n"},
			{"console/src/app.tsx", "    case 'audit':", "    case 'example': return <ExamplePage />;\n"},
		},
		commands: []string{"cd console && npx tsc --noEmit"},
	},
}

// TestRecipes checks that each recipe of docs/architecture.md names each file that it changes, and that the files still have
// the places of the changes. With RECIPES=1, as in make recipes, it applies each recipe to a copy of the tree, and builds and
// tests the copy, which takes minutes.
func TestRecipes(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, architecture), "\n## Recipes\n")
	if !found {
		t.Fatalf("%s has no recipes", architecture)
	}
	titles := regexp.MustCompile(`(?m)^\*\*([^*]+)\*\*`).FindAllStringSubmatch(section, -1)
	if len(titles) != len(recipes) {
		t.Errorf("%d recipes in the page, %d in this test", len(titles), len(recipes))
	}
	for _, r := range recipes {
		t.Run(r.title, func(t *testing.T) {
			text := regexp.MustCompile(`(?m)^\*\*` + regexp.QuoteMeta(r.title) + `\*\*.*$`).FindString(section)
			for _, e := range r.edits {
				if e.before != "" && !strings.Contains(text, e.file) {
					t.Errorf("the recipe does not name %s", e.file)
				}
			}
			if os.Getenv("RECIPES") == "" {
				for _, e := range r.edits {
					e.applied(t, ".")
				}
				return
			}
			dir := copyOfTree(t)
			for _, e := range r.edits {
				if err := os.WriteFile(filepath.Join(dir, e.file), []byte(e.applied(t, dir)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if r.needs != "" {
				link(t, r.needs, dir)
			}
			for _, command := range r.commands {
				cmd := exec.Command("bash", "-euc", command)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
			}
		})
	}
}

// applied returns the file of a tree after the edit.
func (e edit) applied(t *testing.T, dir string) string {
	t.Helper()
	if e.before == "" {
		return e.text
	}
	text := readFile(t, filepath.Join(dir, e.file))
	if !strings.Contains(text, e.before) {
		t.Fatalf("%s has no place that reads %q", e.file, e.before)
	}
	return strings.Replace(text, e.before, e.text+e.before, 1)
}

// copyOfTree copies the tracked files.
func copyOfTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("bash", "-c", `git ls-files -z | xargs -0 cp --parents -t "$0"`, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// link makes a path of the tree available in a copy of it.
func link(t *testing.T, path, dir string) {
	t.Helper()
	target, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = os.Stat(target); err == nil {
		err = os.Symlink(target, filepath.Join(dir, path))
	}
	if err != nil {
		t.Fatal(err)
	}
}
