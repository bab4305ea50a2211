package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
)

// maxSection is how many bytes a section of a bundle has at most.
const maxSection = 1 << 20

// colour is an escape sequence by which a log on a terminal has colours.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Print writes a result as a line of text, with a second line for what to do.
func Print(w io.Writer, r Result) {
	name := r.Check
	if r.Of != "" {
		name += " " + r.Of
	}
	status := string(r.Status)
	if r.Status == Failure {
		status = "FAILURE"
	}
	fmt.Fprintf(w, "%-8s %-22s %s\n", status, name, r.Text)
	if r.Remedy != "" {
		fmt.Fprintf(w, "%31s %s\n", "->", r.Remedy)
	}
}

// WriteBundle writes a support bundle into a new file that only its owner can read: the results, versions, the
// configuration without secrets, and the metrics and the last log lines of the running gateway. It is text, so that a
// person can read it before sending it.
func (in *Installation) WriteBundle(ctx context.Context, file string, results []Result) error {
	text := in.bundle(ctx, results)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the file
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; write another name", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(file) // a part of a bundle is of no use
	}
	return err
}

func (in *Installation) bundle(ctx context.Context, results []Result) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Support bundle of Isogloss, written on %s.\nIt has no keys, prompts or responses. It has the names of models, hosts, teams and users of the operating system: read it before you send it.\n", day(in.Now()))
	section := func(name, text string) {
		fmt.Fprintf(&b, "\n== %s ==\n", name)
		if cut := len(text) - maxSection; cut > 0 {
			fmt.Fprintf(&b, "(the first %d bytes are left out)\n", cut)
			text = text[cut:]
		}
		for line := range strings.Lines(string(in.redactor.Redact([]byte(text)))) {
			b.WriteString(plain.Line(colour.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")) + "\n")
		}
	}
	versions := fmt.Sprintf("this program: %s\nGo: %s\nsystem: %s/%s, %d processors\n", in.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if in.Gateway != nil {
		versions += "gateway: " + in.Gateway.Version + "\n"
	}
	section("Versions", versions)
	var lines strings.Builder
	for _, r := range results {
		Print(&lines, r)
	}
	section("Results", lines.String())
	switch {
	case in.Config == nil, in.Partial, in.Wrong != nil:
		section("Configuration", "left out: the file has mistakes\n")
	default:
		section("Configuration", in.Config.String())
	}
	if in.Gateway == nil {
		section("Gateway", "none runs here; add the last lines of its log yourself, such as 'journalctl -u isogloss -n 200'\n")
		return b.Bytes()
	}
	if c, err := in.running(ctx); err == nil {
		section("Configuration of the gateway", c.Text)
	}
	for _, part := range []struct {
		name, path string
		most       int64
	}{{"Metrics of the gateway", running.MetricsPath, maxMetrics}, {"Last lines of the gateway's log", running.LogPath, maxLog}} {
		text, err := in.Gateway.Read(ctx, part.path, part.most)
		if err != nil {
			text = []byte("not read: " + err.Error() + "\n")
		}
		section(part.name, string(text))
	}
	return b.Bytes()
}
