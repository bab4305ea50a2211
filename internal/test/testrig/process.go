package testrig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Output runs a command and returns its standard output. An error contains the beginning
// of the command's output.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, Clip(failure.String()+out.String(), 800))
	}
	return out.Bytes(), nil
}

// ProcessAlive reports whether a process exists and has not ended. A zombie whose
// threads still run counts as alive: it may hold its ports.
func ProcessAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	if err != nil || !found {
		return false
	}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return !strings.HasPrefix(state, "Z") || len(threads) > 1
}

// ProcessMemory returns a memory figure of /proc/PID/status in bytes, for example
// VmRSS (resident) or VmHWM (peak). It is 0 where the figure is unknown.
func ProcessMemory(pid int, figure string) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return Number(string(status), figure+":") * 1024
}

// OpenFiles returns the number of file descriptors of a process, 0 where it is unknown.
func OpenFiles(pid int) int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all)
}

// Number returns the number that follows a name at the beginning of a line, 0 if there is none.
func Number(text, name string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				n, _ := strconv.ParseFloat(words[0], 64) // text that is not a number counts as 0
				return n
			}
		}
	}
	return 0
}

// Page returns the body of a page, or "" if it cannot be read.
func Page(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// Metrics returns the metrics page of the serving process.
func (g *Gateway) Metrics(ctx context.Context) string { return Page(ctx, g.Admin+"/metrics") }
