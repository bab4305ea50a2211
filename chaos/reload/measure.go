package reload

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// page reads a page of the gateway; one that cannot be read is empty.
func page(url string) string {
	resp, err := http.Get(url) //nolint:gosec,noctx // a page on this machine
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// inUse reports whether requests are answered from version n.
func (s *scenario) inUse(n int) bool {
	return strings.Contains(page(s.gateway.URL+"/v1/models"), fmt.Sprintf(`"id":"only-%d"`, n))
}

// reloads is what the metrics count.
func (s *scenario) reloads(result string) int {
	return number(page(s.gateway.Metrics), `isogloss_config_reloads_total{result="`+result+`"} `)
}

// memory is what Linux says in KiB.
func memory(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return number(string(status), "VmRSS:")
}

func files(pid int) int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all)
}

// number reads the one behind a name; 0 if there is none.
func number(text, name string) int {
	var n int
	if _, rest, found := strings.Cut(text, name); found {
		_, _ = fmt.Sscan(rest, &n)
	}
	return n
}
