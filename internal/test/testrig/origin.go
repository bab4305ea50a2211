package testrig

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Origin says when, of which commit, where and by which command the figures of a generated page were made.
type Origin struct {
	When    time.Time
	Commit  string // of the repository; with "changed" if files differ from it
	Machine string
	Command string // from the repository's folder
}

// NewOrigin describes a run of this process. The repository is the one of the working directory.
func NewOrigin(command string) Origin {
	return Origin{When: time.Now().UTC(), Commit: thisCommit(), Machine: ThisMachine().String(), Command: command}
}

// Line returns the run as pages have it.
func (r Origin) Line() string {
	return fmt.Sprintf("Run on %s at commit %s on %s: `%s`\n", r.When.Format(time.DateOnly), r.Commit, r.Machine, r.Command)
}

var runLine = regexp.MustCompile("(?m)^Run on (\\d{4}-\\d\\d-\\d\\d) at commit ([0-9a-f]{7,40}(?: changed)?) on (\\S[^`\n]*): `([^`\n]+)`$")

// ReadOrigins returns the runs whose lines a page has. A line that begins like one and has another form is an error.
func ReadOrigins(page string) (runs []Origin, err error) {
	for _, m := range runLine.FindAllStringSubmatch(page, -1) {
		when, err := time.Parse(time.DateOnly, m[1])
		if err != nil {
			return nil, err
		}
		runs = append(runs, Origin{When: when, Commit: m[2], Machine: m[3], Command: m[4]})
	}
	if begun := strings.Count("\n"+page, "\nRun on "); begun != len(runs) {
		return nil, fmt.Errorf("%d lines begin with \"Run on\" and %d have the form of testrig.Origin", begun, len(runs))
	}
	return runs, nil
}

// MergeOrigins returns the lines of a section after a run that has replaced some of its figures, or all if it is complete.
func MergeOrigins(section string, r Origin, complete bool) (string, error) {
	old, err := ReadOrigins(section)
	if err != nil {
		return "", err
	}
	old = slices.DeleteFunc(old, func(o Origin) bool { return complete || o.Command == r.Command })
	lines := "" // an empty line between two keeps Markdown from joining them
	for _, o := range append(old, r) {
		lines += o.Line() + "\n"
	}
	return strings.TrimSuffix(lines, "\n"), nil
}

// Repeat returns the command that repeats a harness: its make target, or `go run` with the arguments if there are others than
// those of the target.
func Repeat(target string, args []string) string {
	rest := strings.TrimSpace(ownArgs.ReplaceAllString(strings.Join(args, " ")+" ", ""))
	if rest == "" {
		return "make " + target
	}
	return "go run ./" + target + " " + shellMark.ReplaceAllString(rest, "'$0'")
}

var ownArgs, shellMark = regexp.MustCompile(`--?(bin|write|page)[ =]\S+ `), regexp.MustCompile(`\S*[|*()$]\S*`)

func thisCommit() string {
	hash, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "0000000" // outside of a clone
	}
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", ":/*.go").Run() != nil {
		return strings.TrimSpace(string(hash)) + " changed"
	}
	return strings.TrimSpace(string(hash))
}

// Machine is the computer of a run.
type Machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Memory float64 `json:"memory_gib"`
	Kernel string  `json:"kernel"`
}

// ThisMachine describes the machine from /proc.
func ThisMachine() Machine {
	read := func(file string) string { text, _ := os.ReadFile(file); return string(text) }
	_, cpu, _ := strings.Cut(read("/proc/cpuinfo"), "model name")
	cpu, _, _ = strings.Cut(cpu, "\n")
	return Machine{
		CPU: cmp.Or(strings.Trim(cpu, "\t :"), "unknown"), Cores: runtime.NumCPU(),
		Memory: Number(read("/proc/meminfo"), "MemTotal:") / (1 << 20), Kernel: strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
	}
}

// String returns the machine on one line.
func (m Machine) String() string {
	return fmt.Sprintf("%d × %s with %.0f GiB, Linux %s", m.Cores, m.CPU, m.Memory, cmp.Or(m.Kernel, "unknown"))
}
