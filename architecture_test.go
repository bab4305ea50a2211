package isogloss

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/architecture.md and its pictures")

const architecture = "docs/architecture.md"

// TestArchitecture checks the lists and pictures of docs/architecture.md, which are generated from the code.
// -update writes them.
func TestArchitecture(t *testing.T) {
	page := readFile(t, architecture)
	files := map[string]string{
		"docs/images/districts.svg":        drawDistricts(t),
		"docs/images/way-of-a-request.svg": drawWay(t, "The way of a request", requestSteps(t)),
		"docs/images/way-of-money.svg":     drawWay(t, "The way of money", moneySteps(t)),
		"docs/images/state.svg":            drawState(t, page),
		architecture:                       withPackages(t, page),
	}
	for name, want := range files {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s differs from the code; run: go test . -run TestArchitecture -update", name)
		}
	}
}

// district returns the name of the district of a package; empty if the package is in none.
func district(dir string) string {
	name, found := strings.CutPrefix(row(dir), "internal/")
	if !found {
		return ""
	}
	return name
}

// withPackages returns the page with the lists of packages below the headings of districts.
func withPackages(t *testing.T, page string) string {
	lists := map[string][]string{}
	for dir, files := range packages(t) {
		if name := district(dir); name != "" {
			lists[name] = append(lists[name], fmt.Sprintf("| `%s` | %s |", strings.TrimPrefix(dir, "internal/"), purpose(files)))
		}
	}
	block := regexp.MustCompile(`(?s)(<!-- packages of ([a-z]+) -->\n).*?(<!-- end -->)`)
	page = block.ReplaceAllStringFunc(page, func(old string) string {
		m := block.FindStringSubmatch(old)
		list := lists[m[2]]
		delete(lists, m[2])
		slices.Sort(list)
		return m[1] + "| package | it |\n|---|---|\n" + strings.Join(list, "\n") + "\n" + m[3]
	})
	for name := range lists {
		t.Errorf("%s has no list for internal/%s; write a section with <!-- packages of %[2]s --> and <!-- end -->", architecture, name)
	}
	return page
}

// purpose returns the first sentence of a package comment, without the words "Package x".
func purpose(files []*ast.File) string {
	for _, f := range files {
		if f.Doc != nil {
			sentence := new(doc.Package).Synopsis(f.Doc.Text())
			_, sentence, _ = strings.Cut(strings.TrimPrefix(sentence, "Package "), " ")
			return strings.ReplaceAll(sentence, "|", `\|`)
		}
	}
	return ""
}

// drawDistricts draws the districts on floors: each imports only those below it. An arrow that follows from others
// is left out.
func drawDistricts(t *testing.T) string {
	names, imports := map[string][]string{}, map[string]map[string]bool{}
	for dir, files := range packages(t) {
		from := district(dir)
		if from == "" || from == "test" {
			continue
		}
		if imports[from] == nil {
			imports[from] = map[string]bool{}
		}
		if parts := strings.Split(dir, "/"); len(parts) > 2 && !slices.Contains(names[from], parts[2]) {
			names[from] = append(names[from], parts[2])
		}
		for _, imp := range importsOf(files) {
			if to := district(strings.TrimPrefix(imp, module+"/")); to != "" && to != from {
				imports[from][to] = true
			}
		}
	}
	floors, order := floorsOf(imports)
	const width, gap, wide = 250, 24, 30
	var d drawing
	type place struct{ x, top, bottom int }
	places := map[string]place{}
	columns := 0
	for _, floor := range floors {
		columns = max(columns, len(floor))
	}
	y := 20
	for _, floor := range slices.Backward(floors) {
		bottom := y
		x := 20 + (columns-len(floor))*(width+gap)/2
		for _, name := range floor {
			slices.Sort(names[name])
			b := d.box(x, y, width, "#f6f8fa", name, wrap(strings.Join(names[name], " "), wide)...)
			places[name] = place{x + width/2, y, b}
			bottom, x = max(bottom, b), x+width+gap
		}
		y = bottom + 44
	}
	for _, from := range order {
		for _, to := range order {
			if imports[from][to] && !reachesAround(imports, from, to) {
				d.arrow(places[from].x, places[from].bottom, places[to].x, places[to].top-2)
			}
		}
	}
	return d.svg("The districts of internal/; an arrow points to what a district imports")
}

// floorsOf puts each district above all that it imports. order lists all of them by name.
func floorsOf(imports map[string]map[string]bool) (floors [][]string, order []string) {
	floor := map[string]int{}
	var height func(name string) int
	height = func(name string) int {
		if h, known := floor[name]; known {
			return h
		}
		h := 0
		for to := range imports[name] {
			h = max(h, height(to)+1)
		}
		floor[name] = h
		return h
	}
	for name := range imports {
		order = append(order, name)
	}
	slices.Sort(order)
	for _, name := range order {
		h := height(name)
		for len(floors) <= h {
			floors = append(floors, nil)
		}
		floors[h] = append(floors[h], name)
	}
	return floors, order
}

// reachesAround reports whether from imports to also by way of another district.
func reachesAround(imports map[string]map[string]bool, from, to string) bool {
	for via := range imports[from] {
		if via != to && (imports[via][to] || reachesAround(imports, via, to)) {
			return true
		}
	}
	return false
}

// step is a function on a way that docs/architecture.md draws.
type step struct {
	name string   // of the function
	file string   // where it is
	does string   // the first sentence of its comment
	uses []string // the packages of this module that it calls
}

// requestSteps returns the methods of a request that internal/request/relay calls in prepare and handle, in this order.
func requestSteps(t *testing.T) []step {
	const dir = "internal/request/relay"
	functions := functionsOf(t, dir)
	var names []string
	for _, caller := range []string{"request.prepare", "request.handle"} {
		f, found := functions[caller]
		if !found {
			t.Fatalf("%s has no %s", dir, caller)
		}
		ast.Inspect(f.decl.Body, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && functions["request."+s.Sel.Name].decl != nil && s.Sel.Name != "prepare" && s.Sel.Name != "record" {
				names = append(names, "request."+s.Sel.Name)
			}
			return true
		})
	}
	var steps []step
	for _, name := range append(names, "request.record") { // deferred, so it runs last
		steps = append(steps, functions[name].step())
	}
	if len(steps) < 10 {
		t.Fatalf("only %d steps were found: %v", len(steps), names)
	}
	return steps
}

// moneySteps returns the functions by which money goes from a reservation to a sum.
func moneySteps(t *testing.T) []step {
	var steps []step
	for _, name := range []string{
		"internal/money/billing Books.MaxCost", "internal/money/billing Books.Reserve", "internal/money/quota Limiter.Reserve",
		"internal/money/spool Spool.Begin", "internal/money/billing Account.BeforeWrite", "internal/money/billing Account.Extend",
		"internal/money/billing Account.Charge", "internal/money/quota Hold.Settle", "internal/money/spool Entry.End",
		"internal/money/spool Spool.Drain", "internal/ledger/store Store.Append", "internal/ledger/store/sums Add",
	} {
		dir, function, _ := strings.Cut(name, " ")
		f, found := functionsOf(t, dir)[function]
		if !found {
			t.Fatalf("the way of money names %s, which does not exist", name)
		}
		steps = append(steps, f.step())
	}
	return steps
}

// function is a function or a method with its file.
type function struct {
	decl    *ast.FuncDecl
	path    string
	imports map[string]string // packages of this module by the name that the file gives them
}

// functionsOf returns the functions of a package; methods have the name of their type in front.
func functionsOf(t *testing.T, dir string) map[string]function {
	paths, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	all := map[string]function{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		imports := map[string]string{}
		for _, imp := range importsOf([]*ast.File{file}) {
			if own, ours := strings.CutPrefix(imp, module+"/"); ours {
				imports[filepath.Base(own)] = own
			}
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				all[receiver(f)+f.Name.Name] = function{f, filepath.ToSlash(path), imports}
			}
		}
	}
	return all
}

// receiver returns the type of a method with a point behind it.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func (f function) step() step {
	s := step{name: strings.TrimPrefix(receiver(f.decl)+f.decl.Name.Name, "request."), file: f.path}
	_, s.does, _ = strings.Cut(new(doc.Package).Synopsis(f.decl.Doc.Text()), " ")
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && f.imports[x.Name] != "" && !slices.Contains(s.uses, f.imports[x.Name]) {
				s.uses = append(s.uses, f.imports[x.Name])
			}
		}
		return true
	})
	slices.Sort(s.uses)
	return s
}

// drawWay draws steps from top to bottom, each with its file.
func drawWay(t *testing.T, title string, steps []step) string {
	const x, width, wide = 20, 520, 72
	var d drawing
	y := 20
	for i, s := range steps {
		uses := make([]string, len(s.uses))
		for i, dir := range s.uses {
			uses[i] = strings.TrimPrefix(dir, "internal/")
		}
		if s.does == "" {
			t.Errorf("%s: %s has no comment", s.file, s.name)
		}
		bottom := d.box(x, y, width, "#ddf4ff", s.name, wrap(s.does, wide)...)
		d.text(x+width+16, y+18, "small", strings.TrimPrefix(s.file, "internal/"))
		if len(uses) > 0 {
			for i, line := range wrap("calls "+strings.Join(uses, " "), 60) {
				d.text(x+width+16, y+34+14*i, "small", line)
			}
		}
		if i < len(steps)-1 {
			d.arrow(x+width/2, bottom, x+width/2, bottom+18)
		}
		y = bottom + 20
	}
	return d.svg(title)
}

// drawState draws the rows of the table below the heading "Where state lives".
func drawState(t *testing.T, page string) string {
	_, section, found := strings.Cut(page, "\n## Where state lives\n")
	if !found {
		t.Fatalf("%s has no section on state", architecture)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(section, -1)
	if len(rows) < 6 {
		t.Fatalf("%s: only %d rows on state", architecture, len(rows))
	}
	plain := strings.NewReplacer("**", "", "`", "")
	link := regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	text := func(cell string) []string { return wrap(plain.Replace(link.ReplaceAllString(cell, "$1")), 68) }
	const x, width = 260, 500
	var d drawing
	y := 20
	var middles []int
	for i, row := range rows[1:] { // below the head
		fill := "#f6f8fa"
		if i < 2 {
			fill = "#ddf4ff"
		}
		bottom := d.box(x, y, width, fill, plain.Replace(row[1]), append(text(row[2]), text("away: "+row[3])...)...)
		middles = append(middles, (y+bottom)/2)
		y = bottom + 16
	}
	gateway := d.box(20, 20, 150, "#ddf4ff", "one gateway", wrap("its memory and its data folder belong to it alone", 18)...)
	for _, middle := range middles {
		d.across(170, (20+gateway)/2, x-2, middle)
	}
	return d.svg("Where state lives, and what happens when it is away")
}

// TestPathsExist checks that each path below a folder of Go code that a text of the tree names exists.
func TestPathsExist(t *testing.T) {
	list, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("this is not a clone")
	}
	tracked := strings.Fields(string(list))
	exists := map[string]bool{}
	for _, name := range tracked {
		for dir := name; dir != "."; dir = path.Dir(dir) {
			exists[dir] = true
		}
	}
	// Test data may hold anything, recipes name what they add, and the changelog names paths of its time.
	skipped := regexp.MustCompile(`(^|/)testdata/|^recipes_test\.go$|^CHANGELOG\.md$|\.(svg|png|lock)$|^go\.sum$|package-lock\.json$`)
	named := regexp.MustCompile(`(?:^|[^\w./*-])((?:internal|cmd|protocol)/[a-z][\w./-]*\*?)`)
	checked := 0
	for _, name := range tracked {
		if skipped.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue // deleted, and not yet committed
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if strings.HasSuffix(m[1], "*") {
				continue // a pattern
			}
			p := strings.TrimRight(strings.TrimSuffix(m[1], "/..."), "./-")
			checked++
			if !exists[p] && !exists[strings.SplitN(p, ".", 2)[0]] { // package.Name
				t.Errorf("%s names %s, which does not exist", name, p)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d paths were found", checked)
	}
}

// TestOwners checks that .github/CODEOWNERS has a row for each district and each folder of Go code, and that its folders exist.
func TestOwners(t *testing.T) {
	owned := map[string]bool{}
	for line := range strings.Lines(readFile(t, ".github/CODEOWNERS")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" || fields[0] == "*" {
			continue
		}
		name := strings.Trim(fields[0], "/")
		owned[name] = true
		if _, err := os.Stat(name); err != nil {
			t.Errorf("CODEOWNERS names %s: %v", fields[0], err)
		}
	}
	for dir := range packages(t) {
		name := row(dir)
		if district(dir) == "" {
			name, _, _ = strings.Cut(dir, "/")
		}
		if dir != "." && !owned[name] {
			t.Errorf("CODEOWNERS has no row for /%s/", name)
		}
	}
}
